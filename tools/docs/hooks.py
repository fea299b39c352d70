"""Hooks of mkdocs: README.md is the home page, and links out of docs/ lead to the repository.

Pages link to files of the repository by relative paths, as they are read in a checkout. On
the site such a link leads to the file's page in the hosted repository, and a picture is
copied. A link to a file that does not exist is a warning, which --strict makes an error.
"""

import logging
import posixpath
import re
from pathlib import Path

from mkdocs.structure.files import File

log = logging.getLogger("mkdocs.hooks")
root = Path(__file__).resolve().parents[2]
link = re.compile(r"(!?)\[([^\]]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
fence = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def on_files(files, config):
    """Adds README.md as the home page, and the pictures of all pages."""
    readme = (root / "README.md").read_text()
    files.append(File.generated(config, "index.md", content=readme))
    for page in [readme] + [f.content_string for f in files.documentation_pages()]:
        for bang, _, target, _ in link.findall(page):
            path = posixpath.normpath(target.removeprefix("../"))
            if bang and (root / path).is_file() and not files.get_file_from_path(path):
                files.append(File(path, str(root), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, config, files):
    """Rewrites the links of a page."""
    home = page.file.src_uri == "index.md"

    def rewrite(found):
        bang, text, target, anchor = found[1], found[2], found[3], found[4] or ""
        if ":" in target:
            return found[0]
        if home and target.startswith("docs/"):
            return f"{bang}[{text}]({target.removeprefix('docs/')}{anchor})"
        if not home and not target.startswith("../"):
            return found[0]
        path = posixpath.normpath(target.removeprefix("../"))
        if path == "README.md":
            return f"[{text}](index.md{anchor})"
        if not (root / path).exists():
            log.warning("%s links to %s, which does not exist", page.file.src_uri, target)
        if bang:
            return f"![{text}]({path})"
        kind = "tree" if (root / path).is_dir() else "blob"
        return f"[{text}]({config.repo_url}/{kind}/main/{path}{anchor})"

    parts = fence.split(markdown)
    return "".join(p if p.startswith("```") else link.sub(rewrite, p) for p in parts)
