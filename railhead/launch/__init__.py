"""From a ten-line job file to a running gang: read, plan, check, submit, watch, cancel."""
