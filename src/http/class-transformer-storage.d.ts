/** X)` records; class-transformer does not export it at its root. => The records of `@Type(() => X)`. class-transformer does not export them at its root. => X)` records; class-transformer does not export it at its root. */
declare module 'class-transformer/cjs/storage.js' {
  export const defaultMetadataStorage: {
    findTypeMetadata(target: object, property: string): { typeFunction(): unknown } | undefined;
  };
}
