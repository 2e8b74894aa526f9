/**
 * Ends the process with one sentence if its Node is too old. Entry points import this before everything else: what an
 * old Node lacks fails with a stack trace before any of their own lines run.
 */
const [major, minor] = process.versions.node.split('.').map(Number);
// The last of what is needed, `crc32` of node:zlib, came with 20.15 and with 22.2.
const isRecent = major === 20 ? minor >= 15 : major > 22 || (major === 22 && minor >= 2);
if (!isRecent) {
  process.stderr.write(
    `credence: This is Node ${process.versions.node}; Credence needs Node 20.15 or 22.2 or later.\n`,
  );
  process.exit(1);
}
