import { useContext } from "hono/jsx";
import { Visitor } from "./layout.tsx";

/** What is typed once before the other lines for this service; nothing for its owner on its own machine. */
export function LoginHint() {
  const login = useContext(Visitor).terminal?.login;
  if (login === undefined) return null;
  return (
    <p class="hint">
      Once on your machine, with your API key: <code>{login}</code>
    </p>
  );
}

/** A command of vidgen for this service, as the visitor types it. */
export function TypedLine({ command }: { command: string }) {
  const { terminal } = useContext(Visitor);
  if (terminal === undefined) return null;
  return (
    <>
      <LoginHint />
      <p>
        <code>
          {terminal.program} {command} {terminal.flag}
        </code>
      </p>
    </>
  );
}
