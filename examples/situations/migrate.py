"""Replaces the imports of one Python package by those of another in all files below a directory.

Says on stderr how far it is, a line for each file, and on stdout at the end what it has changed, as one JSON object. A file is
replaced as a whole or not at all, so whoever stops the program leaves no half file behind.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import re
import sys
import tempfile


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--from", dest="old", required=True)
    parser.add_argument("--to", dest="new", required=True)
    parser.add_argument("--only", default="*.py")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("root", type=pathlib.Path)
    return parser.parse_args()


def migrated(text, old, new):
    """The text with the imports replaced, and how many there were."""
    imports = re.compile(rf"^(\s*(?:from|import)\s+){re.escape(old)}(?=[\s.,]|$)", re.MULTILINE)
    return imports.subn(rf"\g<1>{new}", text)


def replace(file, text):
    descriptor, fresh = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    os.chmod(fresh, file.stat().st_mode)
    os.replace(fresh, file)


def main():
    asked = arguments()
    if not asked.root.is_dir():
        print(f"{asked.root} is no directory", file=sys.stderr)
        return 2
    found = (path for path in asked.root.rglob("*.py") if path.is_file() and not path.is_symlink())
    files = sorted(path for path in found if fnmatch.fnmatch(path.name, asked.only))
    changed = {}
    unreadable = []
    for number, file in enumerate(files, 1):
        name = str(file.relative_to(asked.root))
        try:
            text, count = migrated(file.read_text(encoding="utf-8"), asked.old, asked.new)
        except (OSError, UnicodeDecodeError):
            unreadable.append(name)
        else:
            if count:
                changed[name] = count
                if not asked.dry_run:
                    replace(file, text)
        print(f"{number} of {len(files)}: {name}", file=sys.stderr)
    json.dump({"files": len(files), "changed": changed, "unreadable": unreadable, "dry_run": asked.dry_run}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
