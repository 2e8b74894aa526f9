/** The same object, but for some methods. The others are bound to it once; a proxy would cost time at each call. */
export function decorated<T extends object>(target: T, methods: Partial<T>): T {
  const result = Object.create(Object.getPrototypeOf(target) as object) as T;
  for (let from = target; from !== Object.prototype; from = Object.getPrototypeOf(from) as T) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(from))) {
      if (name === 'constructor' || Object.hasOwn(result, name) || Object.hasOwn(methods, name)) continue;
      if (from !== target && typeof value === 'function') {
        Object.defineProperty(result, name, { value: (value as () => unknown).bind(target) });
      } else {
        Object.defineProperty(result, name, { get: () => Reflect.get(target, name), enumerable: true });
      }
    }
  }
  return Object.assign(result, methods);
}
