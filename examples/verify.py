#!/usr/bin/env python3
"""Checks what a log of Credence says about itself. Written from docs/verify.md alone; see there."""

import argparse
import base64
import binascii
import hashlib
import json
import re
import sys


class Refused(Exception):
    """It proves nothing. `reason` is one of malformed, range, mismatch, origin and signature."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason = reason


def sha256(data):
    return hashlib.sha256(data).digest()


def unique(pairs):
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return dict(pairs)


def no_number(text):
    raise ValueError(text + " is not JSON")


DECODER = json.JSONDecoder(object_pairs_hook=unique, parse_constant=no_number)


def members(text):
    """The members of an object: for each name, the JSON text of its value as it stands there."""
    found, position = {}, 1
    try:
        if not text.startswith("{"):
            raise ValueError("it is not an object")
        while text[position:] != "}" or found:
            name, colon = DECODER.raw_decode(text, position)
            value, end = DECODER.raw_decode(text, colon + 1)
            if not isinstance(name, str) or text[colon] != ":" or name in found or text[end] not in ",}":
                raise ValueError("it is not as it was exported")
            found[name] = text[colon + 1 : end]
            position = end + 1
            if text[end:] == "}":
                break
    except (ValueError, IndexError, RecursionError) as error:
        raise Refused("malformed", f"The line is not one of an export: {error}.") from None
    return found


def text_hash(parts):
    return hashlib.sha256(("[" + ",".join(parts) + "]").encode()).hexdigest()


def leaf_of(line):
    """The leaf of an event, from its line of an export: decision 0034, format 1."""
    event = members(line)
    if not event.get("id", "").startswith('"') or not event.get("data", "").startswith("{"):
        raise Refused("malformed", "The line is not an event: it lacks id or data.")
    metadata = members(event.get("metadata", ""))
    take = lambda name, absent="null": metadata.pop(name, absent)
    salt = json.loads(take("salt", '"' + "0" * 32 + '"'))
    salts = hashlib.sha256(f"credence leaf 1 {salt}".encode()).hexdigest()
    version, recorded_at = take("index_version", "1"), take("recorded_at")
    content = [f'"{salts[32:]}"', event["id"], take("body_hash"), take("schema"), take("occurred_at"), event["data"]]
    envelope = [f'"{salts[:32]}"', event.get("stream", "null"), event.get("revision", "null")]
    envelope += [take(name) for name in ("correlation_id", "actor", "idempotency", "traceparent", "index", "size")]
    envelope += [f"[{json.dumps(name, ensure_ascii=False)},{metadata[name]}]" for name in sorted(metadata)]
    core = [version, event.get("type", "null"), recorded_at, f'"{text_hash(envelope)}"', f'"{text_hash(content)}"']
    return sha256(b"\0" + ("[" + ",".join(core) + "]").encode())


def node(left, right):
    return sha256(b"\1" + left + right)


class Tree:
    """Takes leaves in their order; keeps the roots of the full subtrees, each smaller than the one before it."""

    def __init__(self):
        self.size, self.roots = 0, []

    def add(self, leaf):
        rest = self.size
        while rest % 2 == 1:
            leaf = node(self.roots.pop(), leaf)
            rest >>= 1
        self.roots.append(leaf)
        self.size += 1

    def root(self):
        if not self.roots:
            return sha256(b"")
        root = self.roots[-1]
        for left in reversed(self.roots[:-1]):
            root = node(left, root)
        return root


def end_of_export(line):
    """What the last line of an export says of the lines before it."""
    try:
        end = json.loads(line)["end_of_export"]
        return {"about": end.get("about"), **{name: end[name] for name in ("events", "damaged", "sha256")}}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Refused("malformed", "The last line is not that of an export.") from None


def tree_of(path, size=None):
    """The tree over the first events of an export, or all."""
    tree, events, digest, trailer = Tree(), 0, hashlib.sha256(), None
    with open(path, encoding="utf-8", newline="\n") as lines:
        for line in lines:
            if trailer is not None:
                raise Refused("malformed", f"{path} has lines after its last line: it is not one export.")
            if line.startswith('{"end_of_export"'):
                trailer = end_of_export(line)
                continue
            if size is None or tree.size < size:
                tree.add(leaf_of(line.rstrip("\n")))
            digest.update(line.encode())
            events += 1
    if trailer is None:
        raise Refused("malformed", f"{path} is not a complete export: its last line is missing.")
    if trailer["events"] != events:
        raise Refused("malformed", f"{path} has {events} events, and had {trailer['events']} when it was exported.")
    if trailer["sha256"] != digest.hexdigest():
        raise Refused("malformed", f"{path} was changed since it was exported.")
    if trailer["about"] is not None:
        raise Refused("malformed", f"{path} has only the events about {trailer['about']}: it has no root.")
    if trailer["damaged"] > 0:
        raise Refused("malformed", f"{path} leaves out {trailer['damaged']} damaged events: it has no root.")
    if size is not None and tree.size != size:
        raise Refused("range", f"{path} has {tree.size} events, so no tree of {size}.")
    return tree


def check_hashes(*hashes):
    if any(len(one) != 32 for one in hashes):
        raise Refused("malformed", "A leaf, a root and each hash of a proof have 32 bytes.")


def wrong_length(proof):
    return Refused("mismatch", f"A proof for these numbers does not have {len(proof)} hashes.")


def without_zeros(number, last):
    while number % 2 == 0 and number != 0:
        number, last = number >> 1, last >> 1
    return number, last


def is_count(number):
    return isinstance(number, int) and 0 <= number < 2**53


def verify_inclusion(leaf, index, size, root, proof):
    check_hashes(leaf, root, *proof)
    if not is_count(index) or not is_count(size) or index >= size:
        raise Refused("range", f"A tree of {size} leaves has no leaf {index}.")
    number, last, result = index, size - 1, leaf
    for one in proof:
        if last == 0:
            raise wrong_length(proof)
        if number % 2 == 1 or number == last:
            result = node(one, result)
            number, last = without_zeros(number, last)
        else:
            result = node(result, one)
        number, last = number >> 1, last >> 1
    if last != 0:
        raise wrong_length(proof)
    if result != root:
        raise Refused("mismatch", f"The leaf is not number {index} of this tree.")


def verify_consistency(older_size, older_root, newer_size, newer_root, proof):
    check_hashes(older_root, newer_root, *proof)
    if not is_count(older_size) or not is_count(newer_size) or not 0 < older_size <= newer_size:
        raise Refused("range", f"There is no proof from {older_size} to {newer_size}.")
    number, last = (0, 0) if older_size == newer_size else (older_size - 1, newer_size - 1)
    while number % 2 == 1:
        number, last = number >> 1, last >> 1
    path = [older_root, *proof] if number == 0 else list(proof)
    if not path:
        raise wrong_length(proof)
    old = new = path[0]
    for one in path[1:]:
        if last == 0:
            raise wrong_length(proof)
        if number % 2 == 1 or number == last:
            old, new = node(one, old), node(one, new)
            number, last = without_zeros(number, last)
        else:
            new = node(new, one)
        number, last = number >> 1, last >> 1
    if last != 0:
        raise wrong_length(proof)
    if old != older_root:
        raise Refused("mismatch", f"The proof does not lead to the root of the older tree, of size {older_size}.")
    if new != newer_root:
        raise Refused("mismatch", f"The tree of size {newer_size} does not begin with that of size {older_size}.")


def bytes_of(text):
    """Strict base64; None if it is not the one encoding of some bytes."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
    return data if base64.b64encode(data).decode() == text else None


def number_of(text):
    """None if it is not a decimal number up to 2^53 - 1."""
    return int(text) if re.fullmatch("0|[1-9][0-9]{0,15}", text) and int(text) < 2**53 else None


def text_of(data):
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("malformed", "The text is not UTF-8.") from None
    if re.search(r"[\x00-\x09\x0b-\x1f]", text):
        raise Refused("malformed", "The text has control characters other than line feeds.")
    return text


NAME = r"[^\s+]+"


def key_of(text):
    """Name, key id and the key of a verifier key."""
    parts = re.fullmatch(rf"({NAME})\+([0-9a-f]{{8}})\+(.+)", text)
    data = bytes_of(parts[3]) if parts else None
    if data is None or len(data) != 33 or data[0] != 1:
        raise Refused("malformed", f"{text} is no verifier key of Ed25519.")
    if sha256(parts[1].encode() + b"\n" + data)[:4].hex() != parts[2]:
        raise Refused("malformed", f"The key id of {text} is not that of its name and key.")
    return parts[1], bytes.fromhex(parts[2]), data[1:]


def is_signed(key, signature, text):
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, text.encode())
        return True
    except InvalidSignature:
        return False


def verify_note(data, keys):
    """The text of a signed note, and the names of the known keys that have signed it."""
    whole = text_of(data)
    split = whole.rfind("\n\n")
    lines = whole[split + 2 :].split("\n")
    if split < 0 or len(lines) < 2 or lines.pop() != "" or len(lines) > 100:
        raise Refused("malformed", "A signed note is a text, an empty line and lines with signatures.")
    text = whole[: split + 1]
    signatures = []
    for line in lines:
        parts = re.fullmatch(f"— ({NAME}) (.+)", line)
        signature = bytes_of(parts[2]) if parts else None
        if signature is None or len(signature) <= 4:
            raise Refused("malformed", f"This is no signature: {line}")
        signatures.append((parts[1], signature[:4], signature[4:]))
    known = [key_of(key) for key in keys]
    signers = set()
    for name, key_id, key in known:
        for signature in [one[2] for one in signatures if one[:2] == (name, key_id)]:
            if not is_signed(key, signature, text):
                raise Refused("signature", f"The note is not what {name} has signed.")
            signers.add(name)
    if not signers:
        raise Refused("signature", "The note has no signature by a known key.")
    return text, signers


def verify_checkpoint(data, keys, origin=None):
    """Size and root of a checkpoint."""
    text, signers = verify_note(data, keys)
    lines = text[:-1].split("\n")
    size = number_of(lines[1]) if len(lines) >= 3 else None
    root = bytes_of(lines[2]) if len(lines) >= 3 else None
    if size is None or root is None or len(root) != 32 or "" in lines:
        raise Refused("malformed", "The note is not a checkpoint: origin, size and root.")
    if lines[0] not in (signers if origin is None else {origin}):
        raise Refused("origin", f"The checkpoint is of the log {lines[0]}, not of {origin or ' or '.join(signers)}.")
    if size == 0 and root != sha256(b""):
        raise Refused("mismatch", "The checkpoint is of an empty tree, and its root is that of another one.")
    return size, root


def verify_proof(data, leaf, keys, origin=None):
    """Index of the leaf, and the size of the tree."""
    text = text_of(data)
    split = max(text.find("\n\n"), 0)
    first, *lines = text[:split].split("\n")
    extra = bytes_of(lines.pop(0)[len("extra ") :]) if lines and lines[0].startswith("extra ") else b""
    place = lines.pop(0) if lines else ""
    index = number_of(place[len("index ") :]) if place.startswith("index ") else None
    proof = [bytes_of(line) for line in lines]
    if first != "c2sp.org/tlog-proof@v1" or extra is None or index is None or None in proof:
        raise Refused("malformed", "The file is not a tlog-proof.")
    size, root = verify_checkpoint(text[split + 2 :].encode(), keys, origin)
    verify_inclusion(leaf, index, size, root, proof)
    return index, size


def read(path):
    with open(path, "rb") as file:
        return file.read()


def event_in(path):
    return leaf_of(text_of(read(path)).rstrip("\n"))


def base64_of(data):
    return base64.b64encode(data).decode()


def leaf_command(options):
    return base64_of(event_in(options.event))


def root_command(options):
    tree = tree_of(options.export, options.size)
    return f"{tree.size} events, root {base64_of(tree.root())}"


def checkpoint_command(options):
    size, root = verify_checkpoint(read(options.checkpoint), options.key, options.origin)
    if options.export is None:
        return f"The checkpoint is of {size} events, root {base64_of(root)}."
    if tree_of(options.export, size).root() != root:
        raise Refused("mismatch", f"The first {size} events of {options.export} are not those of the checkpoint.")
    return f"The checkpoint is of the first {size} events of {options.export}."


def inclusion_command(options):
    leaf = event_in(options.event)
    index, size = verify_proof(read(options.proof), leaf, options.key, options.origin)
    return f"The event is number {index} of {size}, counted from 0."


def consistency_command(options):
    older = verify_checkpoint(read(options.older), options.key, options.origin)
    newer = verify_checkpoint(read(options.newer), options.key, options.origin)
    proof = [bytes_of(one) for one in json.loads(read(options.proof))["proof"]]
    if None in proof:
        raise Refused("malformed", f"{options.proof} has a hash that is not base64.")
    verify_consistency(*older, *newer, proof)
    return f"The first {older[0]} of the {newer[0]} events are those of the older checkpoint."


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name, run, *files, **how):
        one = commands.add_parser(name, **how)
        one.set_defaults(run=run)
        for file in files:
            one.add_argument(file)
        return one

    def signed(one):
        one.add_argument("--key", action="append", required=True, help="verifier key; may be given several times")
        one.add_argument("--origin", help="the only origin to accept; default: the name of the key")
        return one

    command("leaf", leaf_command, "event", help="the leaf of a line of an export")
    command("root", root_command, "export", help="size and root of an export").add_argument("--size", type=int)
    checkpoint = command("checkpoint", checkpoint_command, "checkpoint", help="verify a checkpoint")
    signed(checkpoint).add_argument("--export", help="compare it with these events")
    signed(command("inclusion", inclusion_command, "proof", "event", help="verify that an event is in the log"))
    signed(command("consistency", consistency_command, "older", "newer", "proof", help="verify that a log was extended"))
    options = parser.parse_args(arguments)
    try:
        print(options.run(options))
        return 0
    except Refused as refusal:
        print(f"refused ({refusal.reason}): {refusal}")
    except (OSError, ValueError, LookupError, TypeError) as error:
        print(f"refused (malformed): a file cannot be read ({type(error).__name__}: {error})")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
