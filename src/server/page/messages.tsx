import { Message } from "./layout.tsx";

export function Unavailable() {
  return (
    <Message title="The database cannot be reached">
      <p>No data is lost: accepted generations continue once the database is back. Reload this page then.</p>
    </Message>
  );
}

export function OwnerOnly() {
  return (
    <Message title="Only the service's owner can see the engines">
      <HomeLink />
    </Message>
  );
}

export function NoGeneration() {
  return (
    <Message title="There is no such generation">
      <HomeLink />
    </Message>
  );
}

export function NoPage() {
  return (
    <Message title="There is no such page">
      <HomeLink />
    </Message>
  );
}

export function InvalidAddress() {
  return (
    <Message title="This address is not valid">
      <p>A value after the question mark is not allowed.</p>
      <HomeLink />
    </Message>
  );
}

export function HomeLink() {
  return (
    <p>
      <a href="/">All generations</a>
    </p>
  );
}
