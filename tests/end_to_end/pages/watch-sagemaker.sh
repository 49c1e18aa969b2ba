mkdir src
