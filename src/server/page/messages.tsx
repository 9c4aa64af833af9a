import { Message } from "./layout.tsx";

// Messages in place of a page.

export function Unavailable() {
  return (
    <Message title="The database cannot be reached">
      <p>No data is lost: accepted generations continue once the database is back. Reload this page then.</p>
    </Message>
  );
}

export function OwnersAlone() {
  return (
    <Message title="Only the service's owner can see the engines">
      <WayOut />
    </Message>
  );
}

export function Missing() {
  return (
    <Message title="There is no such generation">
      <WayOut />
    </Message>
  );
}

export function NotFound() {
  return (
    <Message title="There is no such page">
      <WayOut />
    </Message>
  );
}

export function BadAddress() {
  return (
    <Message title="This address cannot be read">
      <p>Its query (the part after the question mark) has an invalid value.</p>
      <WayOut />
    </Message>
  );
}

export function WayOut() {
  return (
    <p>
      <a href="/">All generations</a>
    </p>
  );
}
