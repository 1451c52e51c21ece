// A place for a file: chosen with the browser's dialogue, or dropped on it.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';

export function FileDrop(props: {
  id: string;
  label: string;
  accept: string;
  onFile: (file: File) => void;
  /** Stands below the input, and says what the file is. */
  children: ComponentChildren;
}) {
  const [isOver, setIsOver] = useState(false);
  const take = (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (file) props.onFile(file);
  };
  return (
    <div
      class={`drop ${isOver ? 'over' : ''}`}
      onDragOver={(event) => {
        event.preventDefault();
        setIsOver(true);
      }}
      onDragLeave={() => setIsOver(false)}
      onDrop={(event) => {
        event.preventDefault();
        setIsOver(false);
        take(event.dataTransfer?.files);
      }}
    >
      <label for={props.id}>{props.label}</label>
      <input
        id={props.id}
        type="file"
        accept={props.accept}
        onChange={(event) => take(event.currentTarget.files)}
      />
      {props.children}
    </div>
  );
}
