#!/usr/bin/env python3
"""Looks up the links within a folder of HTML pages: each must lead to a file, and to a heading in it.

docs/links.py FOLDER. Exit status: 0; 1 if one leads nowhere.
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: "list[tuple[str, str | None]]") -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


@cache
def read(path: Path) -> Page:
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def main() -> int:
    root = Path(sys.argv[1]).resolve()
    broken, count = [], 0
    for path in sorted(root.rglob("*.html")):
        # The page of all pages repeats their links from another folder; 404 is seen from any.
        if path.name in ("print.html", "404.html", "toc.html"):
            continue
        for link in read(path).links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            count += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                broken.append(f"{path.relative_to(root)}: {link}: no such file")
            elif parts.fragment and target.suffix == ".html" and unquote(parts.fragment) not in read(target).ids:
                broken.append(f"{path.relative_to(root)}: {link}: no such heading")
    print("\n".join(broken) or f"{count} links lead somewhere")
    if not broken and count < 100:
        print("too few links were found")
        return 1
    return 1 if broken else 0


sys.exit(main())
