"""Certificates for tests of TLS, by openssl: an authority, and what it signs."""
import atexit
import functools
import pathlib
import shutil
import ssl
import subprocess
import tempfile


class Authority:
    """In a folder: NAME.pem and NAME.key of what it signs; ca.pem is its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.ca = self.folder / "ca.pem"
        self._run("req", "-x509", *self._key("ca"), "-out", self.ca, "-subj", "/CN=tests", "-days", "2",
                  "-addext", "basicConstraints=critical,CA:TRUE")

    def _run(self, *args, **how):
        return subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True, **how)

    def _key(self, file, kind="ec"):
        how = ["-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else ["-pkeyopt", "rsa_keygen_bits:2048"]
        return ["-newkey", kind, *how, "-nodes", "-keyout", self.folder / f"{file}.key"]

    def sign(self, name, file=None, purpose="clientAuth", days=2, kind="ec"):
        """A certificate whose common name this is: its paths, the key's too."""
        file = file or name
        paths = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        asked, words = self.folder / "asked.csr", self.folder / "words"
        self._run("req", *self._key(file, kind), "-out", asked, "-subj", f"/CN={name}")
        words.write_text(f"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nextendedKeyUsage={purpose}\n")
        self._run("x509", "-req", "-in", asked, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                  "-days", days, "-extfile", words, "-out", paths[0])
        return paths

    def server(self, file="server", **how):
        return self.sign("localhost", file, "serverAuth", **how)

    def context(self, client=None):
        """A client's: it trusts the authority, and shows the certificate of these paths."""
        made = ssl.create_default_context(cafile=self.ca)
        if client:
            made.load_cert_chain(*client)
        return made


@functools.cache
def here():
    """An authority of this process, with a server's certificate."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, True)
    made = Authority(folder)
    return made, made.server()
