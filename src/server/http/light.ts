/** Marks what a light object knows by itself. */
const known = Symbol("known");

type Light<Known, Real> = { [known]?: { state: Known; real?: Real } };

export type LightKind<Known, Real> = {
  create(state: Known): Real;
  /** What a light object was made of; `undefined` for a real one, and once it was turned into one. */
  read(object: Real): Known | undefined;
};

/**
 * Objects that pass for real ones of the web platform and cost next to nothing: what `own` names comes straight from what they were made
 * of, and only when they are asked for more are they turned into a real one, which then answers for them. Node takes longer to make and
 * read a `Response` than to serve a whole request.
 */
export function createLightKind<Known extends object, Real extends object>(
  prototype: Real,
  make: (state: Known) => Real,
  own: { [Name in keyof Real]?: (state: Known) => Real[Name] },
): LightKind<Known, Real> {
  const stateOf = (light: Light<Known, Real>) => light[known] as { state: Known; real?: Real };
  const realOf = (light: Light<Known, Real>) => {
    const inner = stateOf(light);
    inner.real ??= make(inner.state);
    return inner.real;
  };
  const lightPrototype = Object.create(prototype) as Real;
  for (const name of Reflect.ownKeys(prototype)) {
    const { get, value } = Object.getOwnPropertyDescriptor(prototype, name) ?? {};
    if (get) Object.defineProperty(lightPrototype, name, { get: ownGetter(name) ?? forwardGetter(name) });
    else if (name !== "constructor" && typeof value === "function")
      Object.defineProperty(lightPrototype, name, { value: ownGetter(name) ? ownCall(name) : forwardCall(value) });
  }

  function ownGetter(name: PropertyKey) {
    const get = own[name as keyof Real];
    return (
      get &&
      function (this: Light<Known, Real>) {
        return get(stateOf(this).state);
      }
    );
  }
  function ownCall(name: PropertyKey) {
    const get = own[name as keyof Real] as (state: Known) => (...args: unknown[]) => unknown;
    return function (this: Light<Known, Real>, ...args: unknown[]): unknown {
      return get(stateOf(this).state)(...args);
    };
  }
  function forwardGetter(name: PropertyKey) {
    return function (this: Light<Known, Real>): unknown {
      return Reflect.get(realOf(this), name);
    };
  }
  function forwardCall(method: (...args: unknown[]) => unknown) {
    return function (this: Light<Known, Real>, ...args: unknown[]): unknown {
      return method.apply(realOf(this), args);
    };
  }

  // With a constructor all of them have one shape, which is what makes them quick.
  function LightObject(this: Light<Known, Real>, state: Known): void {
    this[known] = { state };
  }
  LightObject.prototype = lightPrototype;
  const Constructor = LightObject as unknown as new (state: Known) => Real;

  return {
    create: (state) => new Constructor(state),
    read(object) {
      const inner = (object as Light<Known, Real>)[known];
      return inner?.real === undefined ? inner?.state : undefined;
    },
  };
}
