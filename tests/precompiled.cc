// CMake attaches the headers that all tests share to this file: see CMakeLists.txt beside it.
