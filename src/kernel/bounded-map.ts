/** A cache with a maximum number of entries. The entry that was set first is removed first. */
export class BoundedMap<K, V> extends Map<K, V> {
  /**
   * Before the first entry, since the map was full: a new iterator would pass over all entries that were removed
   * before. A map that grows has none: it would hold every table that the map outgrows.
   */
  private first: MapIterator<K> | undefined;

  constructor(private readonly limit: number) {
    super();
  }

  override set(key: K, value: V): this {
    if (this.size >= this.limit && !this.has(key)) {
      this.first ??= this.keys();
      super.delete(this.first.next().value!);
    }
    return super.set(key, value);
  }

  override delete(key: K): boolean {
    this.first = undefined;
    return super.delete(key);
  }
}
