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
  // Gives the descriptor away.
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

// All descriptors below are closed in a child unless Spawn hands them to it.

// RESOURCE_EXHAUSTED if there are no more descriptors.
absl::StatusOr<Pipe> MakePipe();
// A pipe to which a write fails when nobody reads any more; a plain pipe would raise a signal.
absl::StatusOr<Pipe> MakeInputPipe();
// Opens a file for appending and makes it if need be; UNAVAILABLE says why it cannot.
absl::StatusOr<FileHandle> OpenForAppending(const std::string& path);
// Opens /dev/null for reading.
absl::StatusOr<FileHandle> OpenEmptyInput();
// Opens a handle of a child that becomes readable when the child ends (pidfd_open(2)).
absl::StatusOr<FileHandle> OpenProcess(int pid);

}  // namespace meshwright
