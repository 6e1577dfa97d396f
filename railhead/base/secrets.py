"""Patterns of secrets: names of variables, and tokens of services in any text."""

from __future__ import annotations

import re

# Names of variables that may hold a secret.
SECRET_NAME = re.compile(
    r"(?i)token|passw|secret|credential|api[-_]?key|access[-_]?key|private|auth|cookie|session|dsn"
)
TOKENS = (
    re.compile(r"-----BEGIN [A-Z ]{3,40}-----.*?(?:-----END [A-Z ]{3,40}-----|\Z)", re.DOTALL),
    re.compile(r"\beyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    re.compile(
        r"\b(?:hf_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abprs]-|xapp-|sk-|[sr]k_live_|nvapi-|"
        r"dckr_pat_|npm_|pypi-|gsk_|hvs\.|ya29\.|GOCSPX-|AIza)[\w-]{10,}"
    ),
    # Azure's connection strings, and the addresses by which Slack lets anybody post.
    re.compile(r"(?<=AccountKey=)[A-Za-z0-9+/]{20,}=*"),
    re.compile(r"(?<=hooks\.slack\.com/services/)[\w/]{10,}"),
    re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(r"(?<=://)[^/\s:@]{1,200}:[^/\s@]{1,200}(?=@)"),
    re.compile(r"(?i)(?<=bearer )[\w.~+/=-]{8,}"),
    re.compile(r"(?i)(?<=basic )[A-Za-z0-9+/=]{12,}"),
)
# Names that certainly hold a secret, which every reader of a stack could use.
CREDENTIAL = re.compile(
    r"(?i)((^|_)(token|pat|passphrase|secret|secret_?key|api_?key|access_?key|"
    r"private_?key|credentials?)|password|passwd|_pwd)$"
)


def token(text: str) -> bool:
    """Return whether something in a text looks like a token, a key or a password.

    >>> token("AKIAIOSFODNN7EXAMPLE"), token("NCCL_DEBUG=INFO")
    (True, False)
    """
    return any(pattern.search(text) for pattern in TOKENS)
