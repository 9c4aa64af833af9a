import { Message } from "./layout.tsx";

export function Unavailable() {
  return (
    <Message title="The database cannot be reached">
      <p>No data is lost: accepted generations continue once the database is back. Reload this page then.</p>
    </Message>
  );
}

/** Says why there is nothing at an address for this visitor. */
export function NothingHere({ title }: { title: string }) {
  return (
    <Message title={title}>
      <HomeLink />
    </Message>
  );
}

export function NoGeneration() {
  return <NothingHere title="There is no such generation" />;
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
