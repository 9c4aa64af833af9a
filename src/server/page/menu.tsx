import type { Child } from "hono/jsx";

/** A button and the menu that it opens. The browser closes the menu on Escape and on a click elsewhere. */
export function Menu({ id, name, children }: { id: string; name: string; children?: Child }) {
  return (
    <>
      <button type="button" class="opens-menu" popovertarget={id}>
        {name}
      </button>
      <div id={id} class="menu" popover="auto">
        {children}
      </div>
    </>
  );
}
