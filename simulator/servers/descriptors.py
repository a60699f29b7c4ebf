"""How many connections a process may have: every one is a file descriptor, and shells allow a thousand."""

from __future__ import annotations

#: More than this nobody needs, and some systems take "unlimited" badly.
MOST = 1_048_576


def raise_limit() -> int | None:
    """Allow this process as many descriptors as the system lets it have; return how many. None: nobody can say.

    Only the soft limit is ours to move (getrlimit(2)); Windows has none.
    """
    try:
        import resource  # Unix only
    except ImportError:
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            # The kernel's own limit (fs.nr_open, or macOS's) may be lower than the one it names.
            return soft
        return wanted
    return soft
