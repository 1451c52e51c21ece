#pragma once

#include <filesystem>
#include <string>

namespace meshwright {

// A new folder that is removed with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  // Returns the path of a file in it, which may not exist.
  [[nodiscard]] std::string File(const std::string& name) const { return path_ + "/" + name; }
  // Writes a file and returns its path. Creates missing folders.
  std::string Write(const std::string& name, const std::string& text) const;

 private:
  std::string path_;
};

// Returns all bytes of a file, or an empty string if it cannot be read.
std::string ReadFile(const std::filesystem::path& path);

}  // namespace meshwright
