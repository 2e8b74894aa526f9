/** A cache with a maximum number of entries. The entry that was set first is removed first. */
export class BoundedMap<K, V> extends Map<K, V> {
  /** Always before the first entry. A new iterator would pass over all entries that were removed before. */
  private readonly first = this.keys();

  constructor(private readonly limit: number) {
    super();
  }

  override set(key: K, value: V): this {
    if (this.size >= this.limit && !this.has(key)) this.delete(this.first.next().value!);
    return super.set(key, value);
  }
}
