#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace meshwright {

// Owns a file descriptor and closes it.
class FileHandle {
 public:
  explicit FileHandle(int number = -1) : number_(number) {}
  FileHandle(FileHandle&& other) noexcept : number_(other.Release()) {}
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle() { Close(); }

  void Close();
  // Gives up the ownership of the descriptor and returns it.
  int Release();
  [[nodiscard]] int number() const { return number_; }
  [[nodiscard]] bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

struct Pipe {
  FileHandle read;
  FileHandle write;
};

// Every descriptor from the functions below is closed in a child unless Spawn passes it on.

// Returns RESOURCE_EXHAUSTED if there are no more descriptors.
absl::StatusOr<Pipe> MakePipe();
// Makes a pipe on which a write fails once nobody reads any more. A plain pipe would raise a
// signal.
absl::StatusOr<Pipe> MakeInputPipe();
// Opens a file for appending and creates it if needed. Returns UNAVAILABLE with the reason if it
// cannot be opened.
absl::StatusOr<FileHandle> OpenForAppending(const std::string& path);
// Opens /dev/null for reading.
absl::StatusOr<FileHandle> OpenEmptyInput();
// Opens a handle of a child that becomes readable once the child ends (pidfd_open(2)).
absl::StatusOr<FileHandle> OpenProcess(int pid);

}  // namespace meshwright
