SELECT
  "t14"."window",
  "t14"."src",
  "t14"."dst",
  "t14"."count",
  "t14"."time",
  "t14"."last_time",
  "t14"."bytes",
  "t14"."bytes_known",
  "t14"."failures",
  "t14"."outcomes",
  "t14"."user_distinct",
  SLICE(
    ARRAY_SORT("t14"."user"),
    LEAST(
      CARDINALITY(ARRAY_SORT("t14"."user")),
      IF(
        0 < 0,
        CARDINALITY(ARRAY_SORT("t14"."user")) + GREATEST(0, -CARDINALITY(ARRAY_SORT("t14"."user"))),
        0
      )
    ) + 1,
    IF(
      3 < 0,
      CARDINALITY(ARRAY_SORT("t14"."user")) + GREATEST(3, -CARDINALITY(ARRAY_SORT("t14"."user"))),
      3
    ) - LEAST(
      CARDINALITY(ARRAY_SORT("t14"."user")),
      IF(
        0 < 0,
        CARDINALITY(ARRAY_SORT("t14"."user")) + GREATEST(0, -CARDINALITY(ARRAY_SORT("t14"."user"))),
        0
      )
    )
  ) AS "user",
  "t14"."kind_distinct",
  SLICE(
    ARRAY_SORT("t14"."kind"),
    LEAST(
      CARDINALITY(ARRAY_SORT("t14"."kind")),
      IF(
        0 < 0,
        CARDINALITY(ARRAY_SORT("t14"."kind")) + GREATEST(0, -CARDINALITY(ARRAY_SORT("t14"."kind"))),
        0
      )
    ) + 1,
    IF(
      3 < 0,
      CARDINALITY(ARRAY_SORT("t14"."kind")) + GREATEST(3, -CARDINALITY(ARRAY_SORT("t14"."kind"))),
      3
    ) - LEAST(
      CARDINALITY(ARRAY_SORT("t14"."kind")),
      IF(
        0 < 0,
        CARDINALITY(ARRAY_SORT("t14"."kind")) + GREATEST(0, -CARDINALITY(ARRAY_SORT("t14"."kind"))),
        0
      )
    )
  ) AS "kind",
  "t14"."port_distinct",
  SLICE(
    ARRAY_SORT("t14"."port"),
    LEAST(
      CARDINALITY(ARRAY_SORT("t14"."port")),
      IF(
        0 < 0,
        CARDINALITY(ARRAY_SORT("t14"."port")) + GREATEST(0, -CARDINALITY(ARRAY_SORT("t14"."port"))),
        0
      )
    ) + 1,
    IF(
      3 < 0,
      CARDINALITY(ARRAY_SORT("t14"."port")) + GREATEST(3, -CARDINALITY(ARRAY_SORT("t14"."port"))),
      3
    ) - LEAST(
      CARDINALITY(ARRAY_SORT("t14"."port")),
      IF(
        0 < 0,
        CARDINALITY(ARRAY_SORT("t14"."port")) + GREATEST(0, -CARDINALITY(ARRAY_SORT("t14"."port"))),
        0
      )
    )
  ) AS "port"
FROM (
  SELECT
    "t13"."window",
    "t13"."src",
    "t13"."dst",
    MAX("t13"."count") FILTER(WHERE
      "t13"."place" = 0) AS "count",
    MAX("t13"."time") FILTER(WHERE
      "t13"."place" = 0) AS "time",
    MAX("t13"."last_time") FILTER(WHERE
      "t13"."place" = 0) AS "last_time",
    MAX("t13"."bytes") FILTER(WHERE
      "t13"."place" = 0) AS "bytes",
    MAX("t13"."bytes_known") FILTER(WHERE
      "t13"."place" = 0) AS "bytes_known",
    MAX("t13"."failures") FILTER(WHERE
      "t13"."place" = 0) AS "failures",
    MAX("t13"."outcomes") FILTER(WHERE
      "t13"."place" = 0) AS "outcomes",
    SUM(CAST("t13"."place" = 1 AS INTEGER)) AS "user_distinct",
    ARRAY_AGG("t13"."entry") FILTER(WHERE
      NOT "t13"."entry" IS NULL AND "t13"."place" = 1) AS "user",
    SUM(CAST("t13"."place" = 2 AS INTEGER)) AS "kind_distinct",
    ARRAY_AGG("t13"."entry") FILTER(WHERE
      NOT "t13"."entry" IS NULL AND "t13"."place" = 2) AS "kind",
    SUM(CAST("t13"."place" = 3 AS INTEGER)) AS "port_distinct",
    ARRAY_AGG("t13"."entry") FILTER(WHERE
      NOT "t13"."entry" IS NULL AND "t13"."place" = 3) AS "port"
  FROM (
    SELECT
      "t12"."window",
      "t12"."src",
      "t12"."dst",
      "t12"."place",
      "t12"."value",
      "t12"."count",
      "t12"."time",
      "t12"."last_time",
      "t12"."bytes",
      "t12"."bytes_known",
      "t12"."failures",
      "t12"."outcomes",
      CONCAT(
        LPAD(
          CAST(1000000000000000 - "t12"."count" AS VARCHAR),
          GREATEST(LENGTH(CAST(1000000000000000 - "t12"."count" AS VARCHAR)), 15),
          '0'
        ),
        "t12"."value"
      ) AS "entry"
    FROM (
      SELECT
        "t11"."window",
        "t11"."src",
        "t11"."dst",
        "t11"."place",
        "t11"."value",
        SUM("t11"."count") AS "count",
        MIN("t11"."time") AS "time",
        MAX("t11"."last_time") AS "last_time",
        SUM("t11"."bytes") AS "bytes",
        SUM("t11"."bytes_known") AS "bytes_known",
        SUM("t11"."failures") AS "failures",
        SUM("t11"."outcomes") AS "outcomes"
      FROM (
        SELECT
          *
        FROM (
          SELECT
            "t9"."window",
            "t9"."src",
            "t9"."dst",
            "t9"."count",
            "t9"."time",
            "t9"."last_time",
            "t9"."bytes",
            "t9"."bytes_known",
            "t9"."failures",
            "t9"."outcomes",
            CAST("t3"."place" AS BIGINT) AS "place",
            CASE
              WHEN "t3"."place" = 0
              THEN ''
              WHEN "t3"."place" = 1
              THEN "t9"."user"
              WHEN "t3"."place" = 2
              THEN "t9"."kind"
              WHEN "t3"."place" = 3
              THEN "t9"."port"
              ELSE CAST(NULL AS VARCHAR)
            END AS "value"
          FROM (
            SELECT
              "t7"."window",
              "t7"."src",
              "t7"."dst",
              "t7"."user",
              "t7"."kind",
              "t7"."port",
              COUNT(*) AS "count",
              MIN("t7"."time") AS "time",
              MAX("t7"."last_time") AS "last_time",
              SUM("t7"."bytes") AS "bytes",
              COUNT(*) FILTER(WHERE
                "t7"."has_bytes") AS "bytes_known",
              COUNT(*) FILTER(WHERE
                "t7"."failed") AS "failures",
              COUNT(*) FILTER(WHERE
                "t7"."has_outcome") AS "outcomes"
            FROM (
              SELECT
                "t6"."time",
                "t6"."src",
                "t6"."dst",
                "t6"."bytes",
                "t6"."has_bytes",
                "t6"."failed",
                "t6"."has_outcome",
                "t6"."user",
                "t6"."kind",
                "t6"."port",
                "t6"."time" - (
                  (
                    "t6"."time" - 1709251200000000
                  ) % 1800000000
                ) AS "window",
                "t6"."time" AS "last_time"
              FROM (
                SELECT
                  *
                FROM (
                  SELECT
                    *
                  FROM (
                    SELECT
                      (
                        CAST(TO_UNIXTIME(DATE_TRUNC('SECOND', "t2"."ts")) AS BIGINT) * 1000000
                      ) + (
                        CAST(CAST(DATE_FORMAT("t2"."ts", '%f') AS INTEGER) AS BIGINT) % 1000000
                      ) AS "time",
                      "t2"."client" AS "src",
                      "t2"."server" AS "dst",
                      COALESCE("t2"."bytes", 0) AS "bytes",
                      NOT "t2"."bytes" IS NULL AS "has_bytes",
                      NOT (
                        COALESCE(
                          CASE
                            WHEN LOWER(
                              IF(
                                (
                                  "t2"."result" < '!'
                                ) OR (
                                  SUBSTR("t2"."result", -1) < '!'
                                ),
                                TRIM(' 	
' FROM "t2"."result"),
                                "t2"."result"
                              )
                            ) IN ('1', 'true', 't', 'success', 'succeeded', 'ok', 'yes', 'accept', 'allowed')
                            THEN TRUE
                            WHEN LOWER(
                              IF(
                                (
                                  "t2"."result" < '!'
                                ) OR (
                                  SUBSTR("t2"."result", -1) < '!'
                                ),
                                TRIM(' 	
' FROM "t2"."result"),
                                "t2"."result"
                              )
                            ) IN ('0', 'false', 'f', 'failure', 'fail', 'failed', 'no', 'reject', 'denied')
                            THEN FALSE
                            ELSE CAST(NULL AS BOOLEAN)
                          END,
                          TRUE
                        )
                      ) AS "failed",
                      NOT CASE
                        WHEN LOWER(
                          IF(
                            (
                              "t2"."result" < '!'
                            ) OR (
                              SUBSTR("t2"."result", -1) < '!'
                            ),
                            TRIM(' 	
' FROM "t2"."result"),
                            "t2"."result"
                          )
                        ) IN ('1', 'true', 't', 'success', 'succeeded', 'ok', 'yes', 'accept', 'allowed')
                        THEN TRUE
                        WHEN LOWER(
                          IF(
                            (
                              "t2"."result" < '!'
                            ) OR (
                              SUBSTR("t2"."result", -1) < '!'
                            ),
                            TRIM(' 	
' FROM "t2"."result"),
                            "t2"."result"
                          )
                        ) IN ('0', 'false', 'f', 'failure', 'fail', 'failed', 'no', 'reject', 'denied')
                        THEN FALSE
                        ELSE CAST(NULL AS BOOLEAN)
                      END IS NULL AS "has_outcome",
                      IF("t2"."account" <> '', "t2"."account", CAST(NULL AS VARCHAR)) AS "user",
                      IF("t2"."package" <> '', "t2"."package", CAST(NULL AS VARCHAR)) AS "kind",
                      IF(
                        CAST("t2"."port" AS BIGINT) BETWEEN 0 AND 65535,
                        LPAD(
                          CAST(CAST("t2"."port" AS BIGINT) AS VARCHAR),
                          GREATEST(LENGTH(CAST(CAST("t2"."port" AS BIGINT) AS VARCHAR)), 5),
                          '0'
                        ),
                        CAST(NULL AS VARCHAR)
                      ) AS "port"
                    FROM (
                      SELECT
                        *
                      FROM "auth" AS "t0"
                      WHERE
                        "t0"."ts" >= CAST(FROM_ISO8601_TIMESTAMP('2024-03-01T00:00:00') AS TIMESTAMP)
                        AND "t0"."dt" >= '2024-03-01'
                        AND "t0"."ts" < CAST(FROM_ISO8601_TIMESTAMP('2024-03-02T00:00:00') AS TIMESTAMP)
                        AND "t0"."dt" <= '2024-03-01'
                    ) AS "t2"
                  ) AS "t4"
                  WHERE
                    NOT "t4"."time" IS NULL
                    AND NOT "t4"."src" IS NULL
                    AND NOT "t4"."dst" IS NULL
                    AND "t4"."src" <> ''
                    AND "t4"."dst" <> ''
                ) AS "t5"
                WHERE
                  "t5"."src" <> "t5"."dst"
                  AND "t5"."time" >= 1709251200000000
                  AND "t5"."time" < 1709337600000000
              ) AS "t6"
            ) AS "t7"
            GROUP BY
              1,
              2,
              3,
              4,
              5,
              6
          ) AS "t9"
          CROSS JOIN (
            SELECT
              IF(_u.pos = _u_2.pos_2, _u_2."place") AS "place"
            FROM UNNEST(SEQUENCE(
              1,
              GREATEST(
                CARDINALITY(
                  IF(
                    NOT NULLIF(1, 0) IS NULL AND SIGN(1) = SIGN(4 - 0),
                    ARRAY_REMOVE(SEQUENCE(0, 4, 1), 4),
                    ARRAY[]
                  )
                )
              )
            )) AS _u(pos)
            CROSS JOIN UNNEST(IF(
              NOT NULLIF(1, 0) IS NULL AND SIGN(1) = SIGN(4 - 0),
              ARRAY_REMOVE(SEQUENCE(0, 4, 1), 4),
              ARRAY[]
            )) WITH ORDINALITY AS _u_2("place", pos_2)
            WHERE
              _u.pos = _u_2.pos_2
              OR (
                _u.pos > CARDINALITY(
                  IF(
                    NOT NULLIF(1, 0) IS NULL AND SIGN(1) = SIGN(4 - 0),
                    ARRAY_REMOVE(SEQUENCE(0, 4, 1), 4),
                    ARRAY[]
                  )
                )
                AND _u_2.pos_2 = CARDINALITY(
                  IF(
                    NOT NULLIF(1, 0) IS NULL AND SIGN(1) = SIGN(4 - 0),
                    ARRAY_REMOVE(SEQUENCE(0, 4, 1), 4),
                    ARRAY[]
                  )
                )
              )
          ) AS "t3"
        ) AS "t10"
        WHERE
          NOT "t10"."value" IS NULL
      ) AS "t11"
      GROUP BY
        1,
        2,
        3,
        4,
        5
    ) AS "t12"
  ) AS "t13"
  GROUP BY
    1,
    2,
    3
) AS "t14"
