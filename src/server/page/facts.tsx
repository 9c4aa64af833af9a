import type { Child } from "hono/jsx";

/** A fact in a `<dl class="facts-table">`. */
export function Fact({ name, children }: { name: string; children?: Child }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd dir="auto">{children}</dd>
    </div>
  );
}
