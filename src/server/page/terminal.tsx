import { useContext } from "hono/jsx";
import { VisitorContext } from "./layout.tsx";

/** The login command to type once, before other commands. The owner needs none on the service's machine. */
export function LoginHint() {
  const login = useContext(VisitorContext).terminal?.login;
  if (login === undefined) return null;
  return (
    <p class="hint">
      Once on your machine, with your API key: <code>{login}</code>
    </p>
  );
}

/** A vidgen command with the flag that names this service, as the visitor types it. */
export function TypedLine({ command }: { command: string }) {
  const { terminal } = useContext(VisitorContext);
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
