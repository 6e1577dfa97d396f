"""What nodes need before a training pod can have the fabric."""
