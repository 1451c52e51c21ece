/** Offers a blob to the reader as a file. */
export function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = address;
  link.download = name;
  link.click();
  // The browser reads the address after this returns.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
