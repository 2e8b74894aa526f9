/** The same object, but for some methods. Its other methods are bound to it once, not at each call. */
export function decorated<T extends object>(target: T, methods: Partial<T>): T {
  const bound = new Map<unknown, unknown>();
  return new Proxy(target, {
    get(_, name) {
      if (Object.hasOwn(methods, name)) return methods[name as keyof T];
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== 'function') return value;
      if (!bound.has(value)) bound.set(value, value.bind(target));
      return bound.get(value);
    },
  });
}
