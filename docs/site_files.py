"""Additions of the site to docs/: pages of sources, logs and folders, and links of public names.

Links are written as they hold on GitHub. A file or folder of the repository that a page links to
becomes a page below ``files/``, and the link leads there. mkdocs calls the functions ``on_...``.
"""

import ast
import posixpath
import re
from collections.abc import Callable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
INIT = (ROOT / "bload" / "__init__.py").read_text()
LINK = re.compile(r"(?<=\]\()([^()\s#:]+)(?=[)#])")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash", "": "bash"}
SHOWN = {*LANGUAGES, ".txt", ".log", ".csv", ".toml"}
"""Suffixes of files that are shown as text; others, such as pictures, are copied."""
NAME = re.compile(r'(?<!">)<code>(bload\.)?(\w+)</code>')
PUBLIC = {*ast.literal_eval(re.search(r"__all__ = (\[.*?\])", INIT, re.S)[1])}
TARGETS: dict[str, str] = {}
"""Path in the repository -> path below docs/ as mkdocs sees it, for everything outside docs/."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what that links to in turn."""
    TARGETS.clear()
    waiting = [
        (f"docs/{file.src_uri}", file.content_string) for file in files.documentation_pages()
    ]
    while waiting:
        source, text = waiting.pop()
        for path in {_resolve(source, link) for link in LINK.findall(text)} - {*TARGETS}:
            if not (ROOT / path).exists() or (path.startswith("docs/") and (ROOT / path).is_file()):
                continue  # a page or picture of docs/, or a wrong link, which mkdocs reports
            file, text_of_it = _file(path, config)
            files.append(file)
            TARGETS[path] = file.src_uri
            waiting.append((path, text_of_it))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to where `on_files` has put the files."""
    here = page.file.src_uri
    source = {uri: path for path, uri in TARGETS.items()}.get(here, f"docs/{here}")
    if source in TARGETS and (ROOT / source).is_file() and not source.endswith(".md"):
        return markdown  # code, where what looks like a link is none

    def lead(match: re.Match[str]) -> str:
        path = _resolve(source, match[1])
        inside = path.removeprefix("docs/") if path.startswith("docs/") else None
        target = TARGETS.get(path, inside)
        if target is None or not (ROOT / path).exists():
            return match[1]
        return posixpath.relpath(target, posixpath.dirname(here) or ".")

    return LINK.sub(lead, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link public names of `bload` in code within a line to the API pages."""
    return NAME.sub(
        lambda match: (
            f'<autoref identifier="bload.{match[2]}" optional>{match[0]}</autoref>'
            if match[2] in PUBLIC
            else match[0]
        ),
        html,
    )


def _resolve(source: str, link: str) -> str:
    """Return the path in the repository of a link in the file or folder `source`."""
    folder = source if (ROOT / source).is_dir() else posixpath.dirname(source)
    path = posixpath.normpath(posixpath.join(folder, link))
    readme = posixpath.join(path, "README.md")
    return readme if not path.startswith("docs") and (ROOT / readme).is_file() else path


def _file(path: str, config: MkDocsConfig) -> tuple[File, str]:
    """Return the file of the site, and the text whose links count."""
    place = ROOT / path
    hidden = f"---\nsearch: {{exclude: true}}\n---\n\n# {path}\n\n"
    generated: Callable[..., File] = File.generated
    if place.is_dir():
        names = sorted(
            f"{child.name}/" if child.is_dir() else child.name
            for child in place.iterdir()
            if not child.name.startswith((".", "__pycache__"))
        )
        text = "".join(f"* [{name}]({name})\n" for name in names)
        return generated(config, f"files/{path}/index.md", content=hidden + text), text
    if place.suffix == ".md":
        text = place.read_text()
        return generated(config, f"files/{path}", content=text), text
    if place.suffix in SHOWN:
        fence = f"`````{LANGUAGES.get(place.suffix, 'text')}\n{place.read_text()}\n`````\n"
        return generated(config, f"files/{path}.md", content=hidden + fence), ""
    return generated(config, f"files/{path}", abs_src_path=str(place)), ""
