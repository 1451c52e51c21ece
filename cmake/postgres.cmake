# A real PostgreSQL on this machine, which starts before the first test that needs it and ends after the
# last; tests take its properties from MESHWRIGHT_POSTGRES, and find its address in the file that their
# environment names.
option(MESHWRIGHT_TEST_POSTGRES "Test the store on a real PostgreSQL server as well" ON)
if(MESHWRIGHT_TEST_POSTGRES)
  set(folder ${PROJECT_BINARY_DIR}/postgres)
  add_test(NAME postgres_up COMMAND ${PROJECT_SOURCE_DIR}/scripts/postgres_up.sh ${folder})
  add_test(NAME postgres_down COMMAND ${PROJECT_SOURCE_DIR}/scripts/postgres_down.sh ${folder})
  set_tests_properties(postgres_up PROPERTIES FIXTURES_SETUP postgres COST 2000)
  set_tests_properties(postgres_down PROPERTIES FIXTURES_CLEANUP postgres)
  set(MESHWRIGHT_POSTGRES FIXTURES_REQUIRED postgres ENVIRONMENT MESHWRIGHT_POSTGRES=${folder}/address)
else()
  set(MESHWRIGHT_POSTGRES ENVIRONMENT MESHWRIGHT_POSTGRES=off)
endif()
