"""Certificates for tests, made by openssl."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

CONFIG = """
[ca]
default_ca = here
[here]
dir = {folder}
database = {folder}/index.txt
new_certs_dir = {folder}
serial = {folder}/serial
default_md = sha256
policy = any
copy_extensions = copy
unique_subject = no
[any]
commonName = supplied
"""


@dataclass
class Pair:
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        (folder / "index.txt").write_text("")
        (folder / "serial").write_text("01")
        (folder / "ca.cnf").write_text(CONFIG.format(folder=folder))
        self.certificate = folder / "ca.pem"
        self.key = folder / "ca.key"
        self._openssl(
            *f"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 "
            f"-keyout {self.key} -out {self.certificate}".split(),
            "-subj", f"/CN={name}",
        )  # fmt: skip

    @staticmethod
    def _openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def issue(self, name: str, *, expired: bool = False, also: str = "") -> Pair:
        """A certificate for a name, and perhaps others, e.g. ``also="IP:127.0.0.1"``."""
        stem = self.folder / name
        key, request, certificate = (stem.with_suffix(s) for s in (".key", ".csr", ".pem"))
        self._openssl(
            *["req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
            "-keyout", str(key), "-out", str(request), "-subj", f"/CN={name}",
            "-addext", f"subjectAltName=DNS:{name}" + (also and f",{also}"),
        )  # fmt: skip
        end = "20200101000000Z" if expired else "20600101000000Z"
        self._openssl(
            "ca", "-batch", "-notext", "-config", str(self.folder / "ca.cnf"),
            "-cert", str(self.certificate), "-keyfile", str(self.key), "-in", str(request),
            "-out", str(certificate), "-startdate", "20190101000000Z", "-enddate", end,
        )  # fmt: skip
        return Pair(certificate, key)
