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

    def sign(self, name, file=None, purpose="clientAuth", days=2, kind="ec", begins=None):
        """A certificate whose common name this is, from now on or from another time (20991231235959Z): its paths, the key's too."""
        file = file or name
        paths = self.folder / f"{file}.pem", self.folder / f"{file}.key"
        asked, words = self.folder / "asked.csr", self.folder / "words"
        self._run("req", *self._key(file, kind), "-out", asked, "-subj", f"/CN={name}")
        words.write_text(f"subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1\nextendedKeyUsage={purpose}\n")
        if begins:
            self._later(asked, words, begins, paths[0])
        else:
            self._run("x509", "-req", "-in", asked, "-CA", self.ca, "-CAkey", self.folder / "ca.key", "-CAcreateserial",
                      "-days", days, "-extfile", words, "-out", paths[0])
        return paths

    def _later(self, asked, words, begins, out):
        """As openssl x509, which takes no other begin than now."""
        config = self.folder / "config"
        config.write_text(f"[ca]\ndefault_ca=it\n[it]\ndatabase={self.folder}/index\nserial={self.folder}/number\nnew_certs_dir={self.folder}\n"
                          f"default_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n")
        (self.folder / "index").write_text("")
        (self.folder / "number").write_text("1000\n")
        self._run("ca", "-batch", "-notext", "-config", config, "-in", asked, "-cert", self.ca, "-keyfile", self.folder / "ca.key",
                  "-startdate", begins, "-enddate", "21001231235959Z", "-extfile", words, "-out", out)

    def resigned(self, paths, old, new):
        """The certificate with other bytes in it, as many, which the authority signs all the same: its paths."""
        def long(data, at):
            """Where the content of an element begins and ends."""
            n = data[at + 1]
            size = n if n < 128 else int.from_bytes(data[at + 2:at + 2 + n - 128], "big")
            begin = at + 2 + (n - 128 if n >= 128 else 0)
            return begin, begin + size

        def element(tag, content):
            n = len(content)
            return bytes([tag]) + (bytes([n]) if n < 128 else b"\x82" + n.to_bytes(2, "big")) + content
        whole = ssl.PEM_cert_to_DER_cert(paths[0].read_text())
        begin, _ = long(whole, 0)
        _, end = long(whole, begin)
        _, algorithm = long(whole, end)
        assert whole.count(old) == 1 and len(old) == len(new)
        signed = whole[begin:end].replace(old, new)
        text = self.folder / "signed"
        text.write_bytes(signed)
        signature = self._run("dgst", "-sha256", "-sign", self.folder / "ca.key", text).stdout
        made = element(0x30, signed + whole[end:algorithm] + element(3, b"\0" + signature))
        path = paths[0].with_suffix(".resigned")
        path.write_text(ssl.DER_cert_to_PEM_cert(made))
        return path, paths[1]

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
