import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { AuditError, leafOf, verifyProof } from '../../clients/typescript/src/audit.js';
import { blocks, read, section } from '../docs/markdown.js';
import { SEED, randomFrom, repeated } from '../faults/faults.js';
import { noPython } from './python.js';
import { checkpointOf, consistencyProof, inclusionProof, proofFile, rootOf, sha256, signerOf } from './reference.js';
import { INPUTS, NOTES, PROBES, ROOTS, WRONG_NOTES, isSound } from './vectors.js';

/** examples/verify.py, which was written from docs/verify.md alone: what it says beside what the verifier in TypeScript says. */

/** Calls functions of verify.py, one of each line of the input. Bytes are { b: base64 } in both directions. */
const DRIVER = `
import base64, json, sys
sys.path.insert(0, "examples")
sys.dont_write_bytecode = True
import verify

def given(value):
    if isinstance(value, dict): return base64.b64decode(value["b"])
    return [given(one) for one in value] if isinstance(value, list) else value

def told(value):
    if isinstance(value, bytes): return {"b": base64.b64encode(value).decode()}
    return [told(one) for one in sorted(value) if one] if isinstance(value, set) else [told(one) for one in value] if isinstance(value, (list, tuple)) else value

for line in sys.stdin:
    name, *arguments = json.loads(line)
    try:
        print(json.dumps([told(getattr(verify, name)(*given(arguments)))]))
    except verify.Refused as refusal:
        print(json.dumps(refusal.reason))
`;
type Answer = [value: unknown] | string;
const b = (bytes: Uint8Array | string) => ({ b: Buffer.from(bytes).toString('base64') });

/** For each call, its value in an array, or the reason of the refusal. */
function python(calls: unknown[][]): Answer[] {
  const input = calls.map((call) => JSON.stringify(call)).join('\n');
  const output = execFileSync('python3', ['-c', DRIVER], { input, encoding: 'utf8', maxBuffer: 2 ** 28 });
  return output
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
}

(noPython === undefined ? describe : describe.skip)('the verifier in Python', () => {
  const [example] = blocks(section(read('docs/decisions/0034-leaf-of-the-log.md'), 'Example'));
  const line = example!.text.trimEnd();
  const ORIGIN = 'credence.example/log';
  const signer = signerOf(ORIGIN);

  test('computes the same leaves, and refuses the same lines', () => {
    const event = JSON.parse(line);
    const lines = [
      line,
      line.replace(/,"salt":"\w+"/, ''),
      ...[
        { data: {} },
        { data: { text: 'é"\\\n\u0001 😀 </script>', numbers: [0.1, 1e-7, 1e21, -5], nested: [{}, [], null, true] } },
        { metadata: { ...event.metadata, idempotency: 'x', traceparent: 'y', zeta: { a: [1] }, alpha: null } },
        { metadata: { ...event.metadata, index_version: 2 } },
        { position: 99 },
      ].map((change) => JSON.stringify({ ...event, ...change })),
      'x',
      '[1]',
      '{}',
      '{"end_of_export":{"events":1,"damaged":0,"sha256":"00"}}',
      line.replace('{', '{"stream":"other",'),
      line.replace('"metric":', '"tris_id":"tris:eve","metric":'),
      line.slice(0, -1),
      line.replace('"revision":0', '"revision":NaN'),
      line.replace('"data":{', `"data":{"deep":${'['.repeat(20_000)}${']'.repeat(20_000)},`),
    ];
    const expected = lines.map((text): Answer => {
      try {
        return [b(leafOf(text))];
      } catch (error) {
        return (error as AuditError).reason;
      }
    });
    expect(expected.filter((answer) => answer === 'malformed')).toHaveLength(9);
    expect(python(lines.map((text) => ['leaf_of', text]))).toEqual(expected);
  });

  test('accepts and refuses the published proofs and notes as they say', () => {
    const bytes = (hash: string) => ({ b: hash });
    const proofs = python(
      PROBES.map((probe) =>
        probe.kind === 'inclusion'
          ? [
              'verify_inclusion',
              bytes(probe.leafHash),
              probe.leafIdx,
              probe.treeSize,
              bytes(probe.root),
              probe.proof.map(bytes),
            ]
          : [
              'verify_consistency',
              probe.size1,
              bytes(probe.root1),
              probe.size2,
              bytes(probe.root2),
              probe.proof.map(bytes),
            ],
      ),
    );
    expect(proofs.map((answer) => typeof answer !== 'string')).toEqual(PROBES.map(isSound));
    const notes = [...NOTES, ...WRONG_NOTES].map(([, note, keys]) => [
      'verify_note',
      b(wellFormed(note)),
      [keys].flat(),
    ]);
    expect(python(notes).map((answer) => (typeof answer === 'string' ? answer : (answer[0] as unknown[])[1]))).toEqual([
      ...NOTES.map(([, , , signers]) => [...signers].sort()),
      ...WRONG_NOTES.map(([, , , refusal]) => refusal),
    ]);
  });

  test('says of changed proofs what the verifier in TypeScript says', async () => {
    const random = randomFrom(SEED);
    const below = (count: number) => Math.floor(random() * count);
    const calls: unknown[][] = [];
    const expected: Answer[] = [];
    for (let round = 0; round < repeated(600, 20_000); round++) {
      const leaves = Array.from({ length: 1 + below(below(2) === 0 ? 9 : 200) }, (_, index) => sha256(`leaf ${index}`));
      const index = below(leaves.length);
      const sound = proofFile(index, inclusionProof(index, leaves), checkpointOf(ORIGIN, leaves, signer));
      const file = Buffer.from(sound);
      const place = below(file.length);
      const changes = [
        () => file,
        () => Buffer.from(file.map((byte, at) => (at === place ? byte ^ (1 + below(255)) : byte))),
        () => file.subarray(0, place),
        () => Buffer.concat([file.subarray(0, place), Buffer.of(below(256)), file.subarray(place)]),
        () => Buffer.from(sound.replace(/^index .*$/m, `index ${below(2 * leaves.length)}`)),
        () => Buffer.from(sound.replace('\n', '\nextra AAEC\n')),
      ];
      const changed = changes[below(changes.length)]!();
      calls.push(['verify_proof', b(changed), b(leaves[index]!), [signer.key]]);
      expected.push(
        await verifyProof(changed, leaves[index]!, { keys: signer.key }).then(
          (proven) => [[proven.index, proven.checkpoint.size]],
          (error: AuditError) => error.reason,
        ),
      );
    }
    expect(python(calls)).toEqual(expected);
    expect(new Set(expected.map((answer) => (typeof answer === 'string' ? answer : 'accepted'))).size).toBe(5);
  });

  describe('the commands of docs/verify.md', () => {
    const folder = mkdtempSync(join(tmpdir(), 'credence-verify-'));
    afterAll(() => rmSync(folder, { recursive: true, force: true }));
    const lines = [0, 1, 2, 3, 4].map((revision) => JSON.stringify({ ...JSON.parse(line), revision }));
    const leaves = lines.map((text) => Buffer.from(leafOf(text)));
    const exported = (events: string[]) => {
      const text = events.map((one) => `${one}\n`).join('');
      const end = { events: events.length, damaged: 0, sha256: sha256(text).toString('hex') };
      return `${text}${JSON.stringify({ end_of_export: end })}\n`;
    };
    const note = checkpointOf(ORIGIN, leaves.slice(0, 3), signer);
    const files: Record<string, string> = {
      'export.ndjson': exported(lines.slice(0, 3)),
      'later.ndjson': exported(lines),
      'event.json': `${lines[1]}\n`,
      'checkpoint.txt': note,
      'kept.txt': checkpointOf(ORIGIN, leaves.slice(0, 2), signer),
      'event.tlog-proof': proofFile(1, inclusionProof(1, leaves.slice(0, 3)), note),
      'consistency.json': JSON.stringify({
        proof: consistencyProof(2, leaves.slice(0, 3)).map((hash) => hash.toString('base64')),
      }),
    };
    const commands = blocks(read('docs/verify.md'))
      .flatMap(({ text }) => text.split('\n'))
      .filter((command) => command.startsWith('python3 '));
    const run = (command: string) => {
      const env = { ...process.env, KEY: signer.key, PYTHONDONTWRITEBYTECODE: '1' };
      const { status, stdout } = spawnSync('sh', ['-c', command], { cwd: folder, env, encoding: 'utf8' });
      return `${status} ${stdout}`;
    };
    beforeAll(() => {
      symlinkSync(resolve('examples'), join(folder, 'examples'));
      for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
    });

    test.each<[string, (text: string) => string, RegExp]>([
      ['with a changed event', (text) => text.replace('"revision":1', '"revision":7'), /was changed since/],
      ['without one of its events', (text) => text.slice(text.indexOf('\n') + 1), /has 2 events, and had 3 when/],
      ['with an event after its last line', (text) => `${text}${lines[4]!}\n`, /has lines after its last line/],
      ['twice in one file', (text) => text + text, /has lines after its last line/],
      ['whose last line is broken', (text) => text.replace(/"events":.*$/m, ''), /last line is not that of an export/],
      ['about one identity', (text) => text.replace(/"\}\}$/m, '","about":"tris:x"}}'), /only the events about tris:x/],
      ['without its last line', (text) => `${text.split('\n', 3).join('\n')}\n`, /its last line is missing/],
    ])('an export %s has no root', (_, change, said) => {
      writeFileSync(join(folder, 'changed.ndjson'), change(exported(lines.slice(0, 3))));
      const command = 'python3 examples/verify.py root changed.ndjson';
      expect(run(command)).toMatch(/^1 refused \(malformed\): /);
      expect(run(command)).toMatch(said);
      expect(run(`${command} --size 1`)).toMatch(said);
    });

    test('print what is proven', () => {
      const root = rootOf(leaves.slice(0, 3)).toString('base64');
      expect(commands.map(run)).toEqual([
        `0 3 events, root ${root}\n`,
        `0 3 events, root ${root}\n`,
        `0 ${leaves[1]!.toString('base64')}\n`,
        `0 The checkpoint is of 3 events, root ${root}.\n`,
        '0 The checkpoint is of the first 3 events of export.ndjson.\n',
        '0 The event is number 1 of 3, counted from 0.\n',
        '0 The first 2 of the 3 events are those of the older checkpoint.\n',
      ]);
    });

    test('say which file was changed', () => {
      const hash = /(?<=\["|,")[^"]{4}/;
      const cases: [file: string, from: string | RegExp, to: string, said: RegExp][] = [
        ['checkpoint.txt', '\n3\n', '\n4\n', /^1 refused \(signature\)/],
        ['export.ndjson', '"revision":1', '"revision":7', /^1 refused \(malformed\): export\.ndjson was changed since/],
        [
          'export.ndjson',
          files['export.ndjson']!,
          exported([lines[0]!, lines[2]!, lines[1]!]),
          /^1 refused \(mismatch\): The first 3 events of export\.ndjson/,
        ],
        ['event.json', '"revision":1', '"revision":7', /^1 refused \(mismatch\): The leaf is not number 1/],
        ['event.tlog-proof', 'index 1', 'index 2', /^1 refused \(mismatch\)/],
        ['kept.txt', '\n2\n', '\n1\n', /^1 refused \(signature\)/],
        ['consistency.json', hash, 'AAAA', /^1 refused \(mismatch\): The tree of size 3 does not begin/],
        ['consistency.json', hash, '////=', /^1 refused \(malformed\)/],
        ['later.ndjson', /\{"end.*\n/, '', /^1 refused \(malformed\): later\.ndjson is not a complete export/],
        [
          'export.ndjson',
          '"damaged":0',
          '"damaged":1',
          /^1 refused \(malformed\): export\.ndjson leaves out 1 damaged/,
        ],
      ];
      const given = cases.map(([file, from, to]) => {
        const using = commands.filter((command) => command.includes(file)).map((command) => command.split('#')[0]!);
        return [file, files[file]!.replace(from, to), using.map((command) => command.trim().split(/ +/).slice(2))];
      });
      // One process for all: a start of Python takes longer than what it does.
      const code = `
import contextlib, io, json, os, sys
sys.path.insert(0, "examples")
import verify

def run(arguments):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = verify.main([os.environ["KEY"] if part == '"$KEY"' else part for part in arguments])
    return f"{status} {said.getvalue()}"

for file, text, commands in json.load(sys.stdin):
    with open(file) as kept:
        sound = kept.read()
    for content in (text, sound):
        with open(file, "w") as changed:
            changed.write(content)
        if content is text:
            print(json.dumps([run(arguments) for arguments in commands]))
`;
      const env = { ...process.env, KEY: signer.key };
      const input = JSON.stringify(given);
      const output = execFileSync('python3', ['-B', '-c', code], { cwd: folder, env, input, encoding: 'utf8' });
      const answers = output.trim().split('\n');
      expect(answers).toHaveLength(cases.length);
      for (const [index, [, , , said]] of cases.entries()) {
        expect(JSON.parse(answers[index]!)).toContainEqual(expect.stringMatching(said));
      }
    });

    test.each([
      ['root nowhere.ndjson', /^1 refused \(malformed\): a file cannot be read .*nowhere\.ndjson/],
      ['root binary', /^1 refused \(malformed\): a file cannot be read .*UnicodeDecodeError/],
      ['root export.ndjson --size -1', /^1 refused \(range\): export\.ndjson has 0 events, so no tree of -1\.\n$/],
      ['consistency kept.txt checkpoint.txt event.json --key "$KEY"', /^1 refused \(malformed\): .*KeyError: 'proof'/],
    ])('say in a line that they cannot read: %s', (command, said) => {
      writeFileSync(join(folder, 'binary'), Buffer.from([0xff]));
      expect(run(`python3 examples/verify.py ${command}`)).toMatch(said);
    });

    test('computes the published roots', () => {
      const code = `
import sys; sys.path.insert(0, "examples"); import verify
tree, roots = verify.Tree(), [verify.Tree().root().hex()]
for leaf in ${JSON.stringify(INPUTS)}:
    tree.add(verify.sha256(b"\\0" + bytes.fromhex(leaf)))
    roots.append(tree.root().hex())
print("\\n".join(roots))`;
      expect(execFileSync('python3', ['-B', '-c', code], { encoding: 'utf8' }).trim().split('\n')).toEqual(ROOTS);
    });
  });
});

/** Half a surrogate pair cannot be in a file: the byte that UTF-8 has nowhere stands for it. */
const wellFormed = (note: string | Uint8Array): Uint8Array =>
  typeof note === 'string' && !note.isWellFormed()
    ? Buffer.concat([Buffer.of(0xff), Buffer.from(note)])
    : Buffer.from(note);
