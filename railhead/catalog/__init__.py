"""The world as data: versions, fabrics, machines. Read by all, imports nothing of Railhead."""
