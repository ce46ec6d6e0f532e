"""What the program `pageblock tune` starts: a request as JSON."""

import json
import sys
from typing import Any

from . import Error
from ._tune import tune

# The exit statuses of the program.
WRONG, INTERRUPTED = 2, 130


def main() -> int:
    """Runs `python3 -m pageblock REQUEST`."""
    request: "dict[str, Any]" = json.loads(sys.argv[1])
    check: "dict[str, Any] | None" = request.pop("check", None)
    as_json: bool = request.pop("json", False)
    try:
        tuned = tune(request.pop("of"), **request)
        print(json.dumps(json.loads((tuned.folder / "answer.json").read_text(encoding="utf-8")), indent=1) if as_json else tuned, flush=True)
        if check is not None:
            # The summary; the other tables are in check.txt.
            summary = tuned.check(**check).text.split("\n\n")[:3]
            print("\nOn a real kernel in QEMU:", *summary, sep="\n\n", flush=True)
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return WRONG
    except KeyboardInterrupt:
        print(f"Interrupted: what is done is in {request['out']}; the same command goes on", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
