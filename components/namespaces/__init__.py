"""The namespaces that training runs in, with everything a job in them needs."""
