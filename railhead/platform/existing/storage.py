"""File systems on a cluster that is there already: directories of an NFS server."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field

from railhead.base.fields import AbsolutePath, Model, Name, matching, problem

# Version 4.1 brings sessions, so that a request is not done twice after a reconnect; a hard mount
# waits for a server that is away, where a soft one would tell a checkpoint's writer of an error.
MOUNT_OPTIONS = ("nfsvers=4.1", "hard")
# Oracle's File Storage speaks version 3 alone (oci-hpc-oke 61d210a, files/oke-fss-mount.sh), whose
# locks need rpc.statd, which the driver's container does not run (csi-driver-nfs #178).
MOUNT_OPTIONS_3 = ("nfsvers=3", "nolock", "hard")
_VERSION_3 = re.compile(r"(nfs)?vers=3")


def _elsewhere(value: str) -> str:
    if value == "localhost" or value == "::1" or value.startswith("127."):
        raise problem(f"{value!r} is each node itself; name the server as nodes reach it")
    return value


Host = Annotated[
    str,
    matching(
        r"^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$|^[0-9a-fA-F:]*:[0-9a-fA-F:]*$",
        "a host's name or address, such as 'nfs.example.com'",
        longest=253,
    ),
    AfterValidator(_elsewhere),
]
DirectoryMode = Annotated[
    str, matching(r"^(keep|[01]?[0-7]{3})$", "'keep', or a directory's mode, such as '0777'")
]
MountOption = Annotated[
    str, matching(r"^[a-z0-9_]+(=[^\s,]+)?$", "a mount option, such as 'nconnect=8'")
]


class NfsClassConfig(Model):
    """A storage class whose claims are directories below ``share`` of an NFS ``server``.

    ``mount_options`` are the kernel's, as mount.nfs takes them. ``mode`` is what each mount gives
    the claim's directory, whatever a team has set; ``keep`` leaves it as it is, 0755 of root at
    first, until the server's administrator says whose it is.
    """

    name: Name
    server: Host
    share: AbsolutePath
    mount_options: tuple[MountOption, ...] = MOUNT_OPTIONS
    # Images run as any user; the server says who reaches the directory.
    mode: DirectoryMode = "0777"

    @property
    def lacks_statd(self) -> bool:
        """True if no mount of it succeeds, since nothing keeps version 3's locks."""
        options = self.mount_options
        return any(map(_VERSION_3.fullmatch, options)) and "nolock" not in options


class NfsConfig(Model):
    """NFS by its CSI driver, which the stack installs; ``classes`` are what claims name.

    ``directory`` of each share has the claims' directories; None is the cluster's own, by identity
    and UID, which no copy of the file for another cluster has. A cluster that was rebuilt finds its
    old data by the old name.
    """

    directory: Name | None = None
    classes: tuple[NfsClassConfig, ...] = Field(min_length=1)
