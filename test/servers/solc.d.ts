/** The part of npm's `solc` that is used here; the package has no types of its own. */
declare module 'solc' {
  const solc: {
    compile(input: string, callbacks?: { import(path: string): { contents: string } | { error: string } }): string;
  };
  export default solc;
}
