"""Metadata IOPS of FSx for Lustre: what may be asked for, and what a size brings by itself."""

# FSx API reference, CreateFileSystemLustreMetadataConfiguration: these, or multiples of 12000.
METADATA_IOPS = (1500, 3000, 6000, 12000)
METADATA_STEP = 12000
METADATA_MOST = 192000
# FSx user guide, performance: (GiB from which on, metadata IOPS that the size brings by itself);
# from `_LARGE` GiB on a step for each 24000.
_INCLUDED = ((12000, 12000), (4800, 6000), (2400, 3000), (0, 1500))
_LARGE, _STEP_GIB = 48000, 24000


def metadata_iops(gib: int) -> int:
    """Return the metadata IOPS that a Lustre file system of a size has in automatic mode.

    >>> metadata_iops(1200), metadata_iops(38400), metadata_iops(57600)
    (1500, 12000, 24000)
    """
    if gib >= _LARGE:
        return min(gib // _STEP_GIB * METADATA_STEP, METADATA_MOST)
    return next(iops for least, iops in _INCLUDED if gib >= least)
