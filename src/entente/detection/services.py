"""Names of the services that are usual on a port, as analysts call them."""

from __future__ import annotations

from collections.abc import Sequence

SERVICES = {
    21: "ftp", 22: "ssh", 23: "telnet", 25: "smtp", 53: "dns", 67: "dhcp", 80: "http", 88: "kerberos",
    110: "pop3", 111: "rpcbind", 123: "ntp", 135: "msrpc", 137: "netbios-ns", 138: "netbios-dgm",
    139: "netbios-ssn", 143: "imap", 161: "snmp", 389: "ldap", 443: "https", 445: "smb", 464: "kpasswd",
    514: "syslog", 587: "smtp", 636: "ldaps", 873: "rsync", 993: "imaps", 1433: "mssql", 1521: "oracle",
    2049: "nfs", 3128: "proxy", 3268: "ldap-gc", 3306: "mysql", 3389: "rdp", 5432: "postgresql",
    5900: "vnc", 5985: "winrm", 5986: "winrm", 6379: "redis", 8080: "http", 8443: "https",
    9200: "elasticsearch", 27017: "mongodb",
}  # fmt: skip


def service_of(ports: Sequence[int]) -> str | None:
    """The service of the first port that has a usual one; None where none has."""
    return next((SERVICES[port] for port in ports if port in SERVICES), None)
