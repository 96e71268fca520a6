dist_man_MANS += man/libtileblas.7 man/tileblas.1
