#include "tests/launchers/fake_kubernetes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace meshwright {

FakeKubernetes::FakeKubernetes(const std::string& script, const std::string& folder) {
  std::string path = folder + "/kubernetes.json";
  std::ofstream(path) << script;
  std::array<int, 2> input = {};
  std::array<int, 2> output = {};
  EXPECT_EQ(pipe2(input.data(), O_CLOEXEC) + pipe2(output.data(), O_CLOEXEC), 0);
  std::string program = "python3";
  std::string source = MESHWRIGHT_SOURCE_DIR "/tests/launchers/fake_kubernetes.py";
  const std::array<char*, 4> words = {program.data(), source.data(), path.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  EXPECT_EQ(posix_spawnp(&pid_, "python3", &actions, nullptr, words.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  for (char c = 0; read(output[0], &c, 1) == 1 && c != '\n';) url_ += c;
  close(output[0]);
  EXPECT_NE(url_.find("://127.0.0.1:"), std::string::npos) << url_;
}

FakeKubernetes::~FakeKubernetes() {
  close(input_);
  waitpid(pid_, nullptr, 0);
}

}  // namespace meshwright
