import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Makes an authority and a certificate of it for 127.0.0.1 in a folder, with openssl from the PATH. */
export function makeCertificates(folder: string) {
  const authorities = join(folder, 'ca');
  mkdirSync(authorities);
  const authority = join(authorities, 'ca.crt');
  const [node, key] = [join(folder, 'node.crt'), join(folder, 'node.key')];
  // Its progress goes to stderr, which an error of execFileSync contains.
  const openssl = (...args: string[]) =>
    execFileSync('openssl', args.join(' ').split(' '), { cwd: folder, stdio: 'pipe' });
  openssl('req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test-ca -keyout ca.key -out', authority);
  openssl('req -newkey rsa:2048 -nodes -subj /CN=eventstoredb-node -keyout node.key -out node.csr');
  writeFileSync(join(folder, 'node.ext'), 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n');
  openssl(
    'x509 -req -in node.csr -CAkey ca.key -CAcreateserial -days 2 -extfile node.ext -out node.crt -CA',
    authority,
  );
  return { authority, authorities, node, key };
}
