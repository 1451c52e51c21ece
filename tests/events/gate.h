#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace meshwright {

// A named pipe at which the scripts of jobs wait until the test, or another process of the job,
// lets one of them through.
class Gate {
 public:
  explicit Gate(std::string path) : path_(std::move(path)) {
    EXPECT_EQ(mkfifo(path_.c_str(), 0600), 0) << path_;
    end_ = open(path_.c_str(), O_RDWR | O_CLOEXEC);  // so that no process waits for the other end
    EXPECT_GE(end_, 0) << path_;
  }
  ~Gate() { close(end_); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void Open() const { EXPECT_EQ(write(end_, "\n", 1), 1); }

  // Return the same as commands of bash.
  [[nodiscard]] std::string WaitCommand() const { return "read -r _ <'" + path_ + "'"; }
  [[nodiscard]] std::string OpenCommand() const { return "echo >'" + path_ + "'"; }

 private:
  std::string path_;
  int end_ = -1;
};

}  // namespace meshwright
