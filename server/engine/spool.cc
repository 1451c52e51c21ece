#include "server/engine/spool.h"

#include <fmt/format.h>
#include <stdio.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status FileError(const char* what) {
  return WithReason(
      absl::UnavailableError(fmt::format("a temporary file: {}: {}", what, std::strerror(errno))),
      "SPOOL_IO");
}

struct Free {
  void operator()(char* bytes) const { std::free(bytes); }
};

}  // namespace

absl::StatusOr<Spool> Spool::Open(const SpoolLimits& limits) {
  std::FILE* const file = std::tmpfile();
  if (file == nullptr) return FileError("cannot be made");
  return Spool(file, limits);
}

absl::Status Spool::Append(std::string_view bytes) {
  size_ += static_cast<std::int64_t>(bytes.size());
  if (limits_.bytes.has_value() && size_ > *limits_.bytes) {
    return WithReason(absl::ResourceExhaustedError(
                          fmt::format("more than {} bytes; send it in parts", *limits_.bytes)),
                      "TOO_LARGE");
  }
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) == bytes.size()) {
    return absl::OkStatus();
  }
  return FileError("cannot be written");
}

absl::Status Spool::Rewind() {
  if (std::fflush(file_.get()) != 0) return FileError("cannot be written");
  std::rewind(file_.get());
  return absl::OkStatus();
}

absl::StatusOr<std::string> Spool::Read(std::size_t size) {
  std::string bytes(size, '\0');
  bytes.resize(std::fread(bytes.data(), 1, size, file_.get()));
  if (std::ferror(file_.get()) != 0) return FileError("cannot be read");
  return bytes;
}

absl::StatusOr<std::optional<std::string>> Spool::ReadLine() {
  char* line = nullptr;
  std::size_t capacity = 0;
  const ssize_t length = getline(&line, &capacity, file_.get());
  const std::unique_ptr<char, Free> owned(line);
  if (length < 0) {
    if (std::ferror(file_.get()) != 0) return FileError("cannot be read");
    return std::optional<std::string>();
  }
  if (limits_.line_bytes.has_value() && length > *limits_.line_bytes) {
    return WithReason(absl::InvalidArgumentError(fmt::format("a line of {} bytes; at most {}",
                                                             length, *limits_.line_bytes)),
                      "TOO_LARGE");
  }
  std::string text(line, static_cast<std::size_t>(length));
  if (text.ends_with('\n')) text.pop_back();
  return std::optional(std::move(text));
}

LineSource Spool::Lines() {
  return {.next = [this] { return ReadLine(); }, .rewind = [this] { return Rewind(); }};
}

}  // namespace meshwright
