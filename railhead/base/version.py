"""The version of the four distributions, which are one program and released together."""

__version__ = "0.1.0"
#: Their names, from the base up.
DISTRIBUTIONS = ("railhead-diagnose", "railhead", "railhead-accept", "railhead-lab")
#: What a release is installed for, each by requirements of its own.
ROLES = ("launch", "deploy", "aws", "gcp")


def installing(role: str) -> str:
    """Return the command that installs a release for a role.

    It installs by hashes: by its bare name pip would install another project's `railhead`, which
    the public index has since 2026-09 (0.4.0).
    """
    return f"pip install -r requirements-{role}.txt (in the folder of Railhead's wheels)"
