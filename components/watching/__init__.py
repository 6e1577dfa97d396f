"""The alerts, dashboards and exporters of a cluster."""
