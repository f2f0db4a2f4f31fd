"""The console: pages and REST for analyst and coordinator, on the alert store, runs and a site's files."""
