"""Who may connect, publish what and receive what.

With TLS every broker shows a certificate that carries its name, signed by the authority all trust.
A client shows one too, or proves a token, or neither where the access file names ``anonymous``. The
file gives each name the filters its events must match and its deliveries will match::

    [[allow]]
    name = "thermometer"
    token = "shoal1:9f86d081..."           # shoal broker --hash-token makes it
    publish = "kind = 'reading'"
    subscribe = "FALSE"

With a file, a broker is one only if its entry has ``peer = true``, or there is an entry ``peers``;
its certificate or the entry's token proves it. Its rules are applied on every link to it: what it
sends must match ``publish``, and it is sent only what matches ``subscribe``.
"""

from __future__ import annotations

import ipaddress
import ssl
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from shoal.content import AttributeFilter, Content, FilterError
from shoal.live.errors import ImpostorError, LiveError, RefusedError
from shoal.live.proof import Verifier
from shoal.stack.registry import plain

ANONYMOUS: Final = "anonymous"
OTHER_PEERS: Final = "peers"


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of an access file."""

    name: str
    token: str = ""
    publish: str = "TRUE"
    subscribe: str = "TRUE"
    peer: bool = False
    """Is a broker of the network."""
    inspect: bool = False
    """May see the broker's state: the names and addresses of others, and what they want."""
    block: bool = False
    """May ask for ``when_full="block"``: that publishers wait for it."""


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    allow: tuple[Rule, ...] = ()


class Principal:
    """Somebody whose identity is established, and what he may do; by default everything."""

    def __init__(self, name: str, rule: Rule | None = None) -> None:
        self.name = name
        self.inspect = rule is None or rule.inspect
        self.block = rule is not None and rule.block
        self._publish = self._filter(None if rule is None else rule.publish)
        self._subscribe = self._filter(None if rule is None else rule.subscribe)

    @staticmethod
    def _filter(text: str | None) -> AttributeFilter | None:
        return None if text is None or text.upper() == "TRUE" else AttributeFilter(text)

    @property
    def filters(self) -> list[AttributeFilter]:
        """The filters of his rules."""
        return [one for one in (self._publish, self._subscribe) if one is not None]

    def may_publish(self, content: Content) -> bool:
        """Whether events with this content are taken from him."""
        return self._publish is None or self._publish.matches(content)

    def may_receive(self, content: Content) -> bool:
        """Whether events with this content are sent to him."""
        return self._subscribe is None or self._subscribe.matches(content)

    def may_subscribe(self, filter: AttributeFilter) -> AttributeFilter:
        """The filter narrowed to what he may receive; refused if nothing is left of it."""
        allowed = self._subscribe
        if allowed is None or allowed.covers(filter):
            return filter
        if not allowed.overlaps(filter):
            raise RefusedError(
                "forbidden", f"'{self.name}' may not receive this; allowed is: {allowed}"
            )
        return filter & allowed

    def refuse_publication(self) -> RefusedError:
        """The error for an event that this rule does not let its owner publish."""
        return RefusedError(
            "forbidden", f"'{self.name}' may not publish this; allowed is: {self._publish}"
        )


class Access:
    """The rules of one broker. Without a file everybody may do everything."""

    def __init__(
        self, path: Path | None = None, check: Callable[[AttributeFilter], None] | None = None
    ) -> None:
        """``check`` refuses a filter that costs this broker too much."""
        self._open = path is None
        self._rules: dict[str, Rule] = {}
        self._tokens: dict[bytes, tuple[Verifier, Rule]] = {}
        """Verifier and rule per token id."""
        if path is None:
            return
        try:
            raw = tomllib.loads(path.read_text())
            entries = msgspec.convert(raw, _File).allow
        except OSError as error:
            raise LiveError(f"access file {path}: {error.strerror}; check the path") from None
        except msgspec.ValidationError as error:
            raise LiveError(f"access file {path}: {plain(error, _File)}") from None
        except (ValueError, RecursionError) as error:
            raise LiveError(f"access file {path}: {error}") from None
        for rule in entries:
            try:
                for filter in Principal(rule.name, rule).filters:
                    if check is not None:
                        check(filter)
                self._add(rule)
            except (FilterError, LiveError) as error:
                raise LiveError(f"access file {path}, '{rule.name}': {error}") from None

    def _add(self, rule: Rule) -> None:
        if rule.name in self._rules:
            raise LiveError("there are two entries of that name; make them one")
        self._rules[rule.name] = rule
        if not rule.token:
            return
        try:
            verifier = Verifier.read(rule.token)
        except ValueError:
            raise LiveError(
                "the token is not hashed, or in an older form; put the output of shoal broker "
                "--hash-token there"
            ) from None
        if verifier.id in self._tokens:
            raise LiveError(f"it has the token of '{self._tokens[verifier.id][1].name}'")
        self._tokens[verifier.id] = verifier, rule

    @property
    def rules(self) -> bool:
        """Whether there is an access file."""
        return not self._open

    def token(self, id: bytes) -> tuple[Verifier, Rule]:
        """Verifier and rule of a token that a peer or client claims to hold."""
        try:
            return self._tokens[id]
        except KeyError:
            raise RefusedError("token", "the token is not known here; check --token") from None

    def client(self, proven: Rule | None, certificate: dict[str, Any] | None) -> Principal:
        """Identity of a client, by the token it has proven or by its certificate."""
        if self._open:
            names = names_of(certificate) if certificate else []
            return Principal(names[0] if names else ANONYMOUS)
        if proven is not None:
            if self._rules.get(proven.name) != proven:
                raise RefusedError(
                    "changed", "the access rules were changed meanwhile; connect again"
                )
            return Principal(proven.name, proven)
        for name in names_of(certificate) if certificate else []:
            if name in self._rules:
                return Principal(name, self._rules[name])
        if ANONYMOUS in self._rules:
            return Principal(ANONYMOUS, self._rules[ANONYMOUS])
        raise RefusedError("token", "this broker wants a token or a known certificate; use --token")

    def again(self, known: Principal) -> Principal:
        """Somebody known before as a principal under these rules; one not named may do nothing."""
        if self._open:
            return Principal(known.name)
        nothing = Rule(known.name, publish="FALSE", subscribe="FALSE", inspect=False)
        return Principal(known.name, self._rules.get(known.name, nothing))

    def peer(self, name: str, proven: Rule | None, certificate: dict[str, Any] | None) -> Principal:
        """Identity of a broker, by the token it has proven or by the name in its certificate."""
        principal, rule = self._peer(name)
        if rule is None or certificate is not None or proven is rule:
            return principal
        raise RefusedError(
            "identity",
            f"broker '{name}' does not prove its name; use TLS, or start it with the --token of "
            f"the entry '{rule.name}' of the access file",
        )

    def peer_again(self, known: Principal) -> Principal:
        """A broker known before, under these rules; refused if it is no longer named."""
        return self._peer(known.name)[0]

    def _peer(self, name: str) -> tuple[Principal, Rule | None]:
        if self._open:
            return Principal(name), None
        own = self._rules.get(name)
        rule = self._rules.get(OTHER_PEERS) if own is None else own
        if rule is None or not (rule.peer or rule.name == OTHER_PEERS):
            raise RefusedError(
                "identity",
                f"'{name}' is not a peer in the access file here; give it an entry with "
                "peer = true",
            )
        return Principal(name, rule), rule


def hash_token(token: str) -> str:
    """Hash of a token for an access file; it does not suffice to prove the token."""
    return str(Verifier.of(token))


def names_of(certificate: dict[str, Any]) -> list[str]:
    """The names a certificate is for: its alternative names, then its common name."""
    names = [value for kind, value in certificate.get("subjectAltName", ()) if kind == "DNS"]
    for part in certificate.get("subject", ()):
        names += [value for key, value in part if key == "commonName" and value not in names]
    return names


def check_server(certificate: dict[str, Any] | None, host: str, names: Sequence[str]) -> None:
    """Refuse a server whose certificate carries none of the names expected, or else its host's."""
    if certificate is None:
        raise ImpostorError(f"{host} shows no certificate; give it one")
    found = names_of(certificate)
    if names:
        good = any(name in found for name in names)
    else:
        addresses = [v for kind, v in certificate.get("subjectAltName", ()) if kind == "IP Address"]
        good = host.lower() in map(str.lower, found) or _same_address(host, addresses)
    if not good:
        raise ImpostorError(
            f"the certificate is for {' and '.join(found) or 'nobody'}, not for "
            f"{' or '.join(map(repr, names or [host]))}; "
            + (
                "is this the broker you mean?"
                if names
                else "say whom you expect: --expect, broker="
            )
        )


def _same_address(host: str, addresses: Sequence[str]) -> bool:
    try:
        return ipaddress.ip_address(host) in map(ipaddress.ip_address, addresses)
    except ValueError:
        return False


def check_peer(name: str, certificate: dict[str, Any] | None, needed: bool) -> None:
    """Refuse a broker that cannot prove its name."""
    if certificate is None:
        if needed:
            raise RefusedError("identity", f"broker '{name}' shows no certificate; give it one")
        return
    if name not in names_of(certificate):
        raise RefusedError(
            "identity",
            f"the certificate is for {' and '.join(names_of(certificate)) or 'nobody'}, not for "
            f"'{name}'; issue one with that name, or start the broker with --name",
        )


def contexts(
    certificate: Path | None, key: Path | None, authority: Path | None
) -> tuple[ssl.SSLContext | None, ssl.SSLContext | None]:
    """A broker's TLS for connections that come in and go out, or none."""
    if certificate is None:
        if key is not None or authority is not None:
            raise LiveError("--key and --ca mean TLS, which also needs --cert")
        return None, None
    if authority is None:
        raise LiveError("TLS between brokers needs --ca: the certificates that sign theirs")
    files = (certificate, key, authority)
    incoming, outgoing = server_context(*files), client_context(*files)
    _rehearse(incoming, outgoing, certificate)
    return incoming, outgoing


def _rehearse(incoming: ssl.SSLContext, outgoing: ssl.SSLContext, certificate: Path) -> None:
    """Would this broker accept itself? Others would not tell as clearly why they do not."""
    forth, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = outgoing.wrap_bio(back, forth), incoming.wrap_bio(forth, back, server_side=True)
    for _ in range(4):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError as error:
                why = explain_tls(error).removeprefix("its certificate ")
                raise LiveError(f"certificate {certificate}: {why}") from None


def server_context(certificate: Path, key: Path | None, authority: Path | None) -> ssl.SSLContext:
    """TLS for connections that come in; who shows a certificate must have a trusted one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, certificate, key, authority)
    context.verify_mode = ssl.CERT_OPTIONAL if authority is not None else ssl.CERT_NONE
    return context


def client_context(
    certificate: Path | None, key: Path | None, authority: Path | None
) -> ssl.SSLContext:
    """TLS for connections that go out; only the given authority counts, the system's if none is.

    Names are checked after the handshake and before anything is sent: brokers are known by name,
    which is rarely where they run.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load(context, certificate, key, authority)
    if authority is None:
        context.load_default_certs()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _load(
    context: ssl.SSLContext, certificate: Path | None, key: Path | None, authority: Path | None
) -> None:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path in (certificate, key, authority):
        if path is not None and not path.is_file():
            raise LiveError(f"{path}: there is no such file; check --cert, --key and --ca")
    try:
        if certificate is not None:
            context.load_cert_chain(certificate, key)
        if authority is not None:
            context.load_verify_locations(authority)
    except (ssl.SSLError, OSError) as error:
        what = getattr(error, "reason", None) or error
        raise LiveError(
            f"certificate {certificate} with key {key or certificate} cannot be used ({what}); "
            "both must be PEM files that belong together"
        ) from None


def explain_tls(error: Exception) -> str:
    """A failed TLS handshake in a user's words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        what = error.verify_message
        if "expired" in what:
            return "its certificate has expired; issue a new one, or check the clock"
        if "not yet valid" in what:
            return "its certificate is not valid yet; check both clocks"
        return f"its certificate is not trusted ({what}); give its authority with --ca"
    reason = str(getattr(error, "reason", "") or error)
    if "CERTIFICATE_EXPIRED" in reason:
        return "it says that our certificate has expired; issue a new one"
    if "UNKNOWN_CA" in reason or "BAD_CERTIFICATE" in reason:
        return "it does not trust our certificate; both ends need the same --ca"
    if "WRONG_VERSION_NUMBER" in reason or "RECORD_LAYER" in reason:
        return "it does not speak TLS; start it with --cert, or connect without"
    return f"TLS failed: {reason}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
