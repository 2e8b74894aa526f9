import { isUtf8 } from 'node:buffer';
import { readFileSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type Document, LineCounter, type Node, isMap, isNode, isScalar, isSeq, parseDocument, visit } from 'yaml';
import { type FieldError, Problem } from '../kernel/problems.js';
import { isObject } from '../kernel/json.js';
import { BODY_LIMIT, parseJson } from '../http/json-body.js';
import { readBody } from '../http/validation.js';
import { type AccessPolicyContent, contentHash as accessHash } from '../features/access/domain/access-policy.js';
import { LENS_SCOPES, type LensScope } from '../features/lenses/domain/lenses.events.js';
import {
  type PolicyContent,
  contentHash,
  refuseUnlessConfiguration,
  refuseUnsound,
  warningsOf,
} from '../features/lenses/domain/validation-policy.js';
import { CreateAccessPolicyDto, toAccessPolicy } from '../features/access/ap.dto.js';
import { CreatePolicyDto, toContent } from '../features/validation-policies/vp.dto.js';
import { UsageError } from './exit.js';

/** Policies as YAML files: one policy in a file, with its kind and the fields of the API. What is read of one is JSON. */

interface InFile {
  /** Path within the folder. */
  file: string;
  policy_id: string;
  content_hash: string;
  /** Things that are accepted but possibly not intended, as `<file>:<line>:<column>: <message>`. */
  warnings: string[];
  /** `<file>:<line>:<column>` of fields; of one that is absent, where the policy begins. */
  places: Record<'policy_id' | 'vp' | 'promote', string>;
}

/** `promote`: whose lens the policy becomes; null: nobody's. */
type OfKind =
  { kind: 'vp'; content: PolicyContent; promote: LensScope | null } | { kind: 'ap'; content: AccessPolicyContent };
export type PolicyFile = InFile & OfKind;

/** The paths of all that is in a folder but folders. Links to folders are not followed: they may lead in circles. */
function namesIn(folder: string, within = ''): string[] {
  // `recursive` of readdir follows such links in some versions of Node.
  return readdirSync(join(folder, within), { withFileTypes: true }).flatMap((entry) => {
    const name = join(within, entry.name);
    return entry.isDirectory() ? namesIn(folder, name) : [name];
  });
}

/**
 * Reads all files of a folder, and of the folders in it, whose names end with .yaml or .yml.
 * @returns the valid files, and what is wrong with the others as `<file>:<line>:<column>: <message>`
 * @throws UsageError if it is not a folder, or has no such file
 */
export function readPolicyFiles(folder: string): { files: PolicyFile[]; errors: string[] } {
  if (!statSync(folder, { throwIfNoEntry: false })?.isDirectory()) throw new UsageError(`"${folder}" is not a folder.`);
  const names = namesIn(folder)
    .filter((name) => /\.ya?ml$/.test(name))
    .sort();
  if (names.length === 0) throw new UsageError(`There is no .yaml file in "${folder}".`);
  const files: PolicyFile[] = [];
  const errors: string[] = [];
  for (const name of names) {
    try {
      const path = join(folder, name);
      // Reading a pipe or a device might not end.
      if (!statSync(path, { throwIfNoEntry: false })?.isFile()) throw new WrongFile([`${name}:1:1: this is no file`]);
      files.push(readPolicyFile(name, readFileSync(path)));
    } catch (error) {
      if (error instanceof RangeError) errors.push(`${name}:1:1: the file has too many levels`);
      else if (error instanceof WrongFile) errors.push(...error.errors);
      else throw error;
    }
  }
  return { files, errors: [...errors, ...contradictions(files)] };
}

/** Two files of one policy, and two policies for one lens. */
function contradictions(files: readonly PolicyFile[]): string[] {
  const errors: string[] = [];
  const policies = new Map<string, string>();
  const lenses = new Map<string, PolicyFile>();
  for (const file of files) {
    const { policy_id } = file;
    const other = policies.get(policy_id);
    if (other !== undefined) errors.push(`${file.places.policy_id}: ${policy_id} is in ${other} already`);
    else policies.set(policy_id, file.file);
    if (file.kind === 'ap' || file.promote === null) continue;
    const whose = file.promote === 'platform' ? 'the platform' : file.content.tris_org;
    const rival = lenses.get(whose);
    if (!rival) lenses.set(whose, file);
    else errors.push(`${file.places.promote}: ${whose} has one lens, and ${rival.file} promotes ${rival.policy_id}`);
  }
  return errors;
}

/** Everything that is wrong with a file. */
class WrongFile extends Error {
  constructor(readonly errors: string[]) {
    super(errors.join('\n'));
  }
}

/** @throws WrongFile */
function readPolicyFile(file: string, bytes: Buffer): PolicyFile {
  if (bytes.length > BODY_LIMIT) throw new WrongFile([`${file}:1:1: the file is longer than a policy may be`]);
  if (!isUtf8(bytes)) throw new WrongFile([`${file}:1:1: the file is not valid UTF-8`]);
  const lines = new LineCounter();
  const document = parseDocument(bytes.toString('utf8'), {
    lineCounter: lines,
    prettyErrors: false,
    // Compares every key with all before it.
    uniqueKeys: false,
  });
  // Also told by the library, once for each level.
  if (document.errors.some(({ code }) => code === 'RESOURCE_EXHAUSTION')) throw new RangeError();
  const placeOf = (offset: number): string => {
    const { line, col } = lines.linePos(offset);
    return `${file}:${line}:${col}`;
  };
  const wrong = [...document.errors, ...document.warnings].map(({ code, pos, message }) => {
    const what = code === 'MULTIPLE_DOCS' ? 'a file has one policy, and another document begins here' : message;
    return `${placeOf(pos[0])}: ${what}`;
  });
  visit(document, {
    Map: (_key, { items }) => {
      const names = new Set<string>();
      for (const { key } of items) {
        const name = String(key);
        if (names.has(name)) wrong.push(`${placeOf(begin(key) ?? 0)}: names of fields must be unique`);
        names.add(name);
      }
    },
    Alias: (_key, { range }) => void wrong.push(`${placeOf(range?.[0] ?? 0)}: write the value out: no aliases here`),
    Scalar: (_key, { value, range }) => {
      if (typeof value !== 'number' || Number.isFinite(value)) return;
      wrong.push(`${placeOf(range?.[0] ?? 0)}: a number must be finite`);
    },
  });
  if (wrong.length > 0) throw new WrongFile(wrong);
  const at = (pointer: string) => placeOf(offsetOf(document, pointer));
  const located = ({ pointer, code, message }: FieldError) =>
    `${placeOf(offsetOf(document, pointer, code === 'unknown_field'))}: ${message}`;
  const checked = <T>(check: () => T): T => {
    try {
      return check();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      const { extra, message } = error;
      throw new WrongFile((extra.errors ?? [{ pointer: '', code: '', message }]).map(located));
    }
  };
  const fields = checked(() => parseJson(Buffer.from(JSON.stringify(document.toJS()))));
  if (!isObject(fields)) throw new WrongFile([`${at('')}: a policy is a mapping of fields, such as "kind: vp"`]);
  const { kind, promote, ...body } = fields;
  const places = { policy_id: at('/policy_id'), vp: at('/vp'), promote: at('/promote') };
  if (kind === 'ap') {
    if (promote !== undefined) throw new WrongFile([`${at('/promote')}: only a policy of the kind vp can be promoted`]);
    const content = checked(() => toAccessPolicy(readBody(CreateAccessPolicyDto, body)));
    const { policy_id } = content;
    return { kind, file, places, policy_id, content, content_hash: accessHash(content), warnings: [] };
  }
  if (kind !== 'vp') throw new WrongFile([`${at('/kind')}: kind must be vp or ap`]);
  const scope = promote === undefined ? null : LENS_SCOPES.find((name) => name === promote);
  if (scope === undefined) throw new WrongFile([`${at('/promote')}: promote must be ${LENS_SCOPES.join(' or ')}`]);
  const content = checked(() => toContent(readBody(CreatePolicyDto, body)));
  checked(() => refuseUnsound(content));
  try {
    if (scope === 'platform') refuseUnlessConfiguration(content);
  } catch (error) {
    throw new WrongFile([`${at('/promote')}: ${(error as Problem).message}`]);
  }
  const { policy_id } = content;
  const warnings = warningsOf(content).map(located);
  return { kind, file, places, policy_id, content, content_hash: contentHash(content), promote: scope, warnings };
}

/** Where a scalar begins, or else the name of a member; of what is absent, where its parent begins. */
function offsetOf(document: Document.Parsed, pointer: string, ofName = false): number {
  let node: unknown = document.contents;
  let offset = begin(node) ?? 0;
  for (const escaped of pointer.split('/').slice(1)) {
    const name = escaped.replaceAll('~1', '/').replaceAll('~0', '~');
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === name);
      if (!pair) break;
      node = pair.value;
      offset = (isScalar(node) && node.value !== null && !ofName ? begin(node) : begin(pair.key)) ?? offset;
    } else if (isSeq(node)) {
      node = node.items[Number(name)];
      offset = begin(node) ?? offset;
    } else break;
  }
  return offset;
}

function begin(node: unknown): number | undefined {
  return isNode(node) ? (node as Node).range?.[0] : undefined;
}
