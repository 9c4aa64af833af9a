import { useContext } from "hono/jsx";
import { Visitor } from "./layout.tsx";

/** The login command to type once before other commands; not shown to the owner on the service's machine. */
export function LoginHint() {
  const login = useContext(Visitor).terminal?.login;
  if (login === undefined) return null;
  return (
    <p class="hint">
      Once on your machine, with your API key: <code>{login}</code>
    </p>
  );
}

/** A vidgen command for this service, as the visitor types it. */
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
