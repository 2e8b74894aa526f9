interface Closable {
  close(): Promise<void>;
}

/**
 * Handles to what may be open once: all are the one that is open, which is closed with the last of them. So the contracts
 * hold for all parts of the one process that owns a data folder.
 */
export function oneHandle<T extends Closable, Given extends unknown[]>(
  open: (...given: Given) => Promise<T>,
): (...given: Given) => Promise<T> {
  let opened: Promise<T> | undefined;
  let users = 0;
  return async (...given) => {
    users++;
    const store = await (opened ??= open(...given));
    let isClosed = false;
    const close = async () => {
      if (isClosed) return;
      isClosed = true;
      if (--users > 0) return;
      opened = undefined;
      await store.close();
    };
    return new Proxy(store, {
      get(target, name) {
        if (name === 'close') return close;
        const value: unknown = Reflect.get(target, name);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  };
}
